//! Several servers that decide together, as tests break them whatever their make.

/// Servers of which a majority decides. They have numbers, from 0.
#[allow(
    async_fn_in_trait,
    reason = "a test awaits these futures itself, so they need no `Send`"
)]
pub trait Ensemble {
    /// The ports of the servers for clients, on 127.0.0.1.
    fn ports(&self) -> Vec<u16>;

    /// The number of the leader.
    ///
    /// Panics if there is none for minutes.
    async fn leader(&self) -> usize;

    /// The number of the leader when another server leads than this one, of which it does not matter what it believes.
    ///
    /// Panics if there is none for minutes.
    async fn leader_but(&self, old: usize) -> usize;

    /// Kills a server at once. What it has acknowledged is still there after a restart.
    fn kill(&self, server: usize);

    /// Starts a killed server again with its data, and waits until it belongs to the others.
    async fn restart(&self, server: usize);

    /// Kills all servers and starts them again with their data.
    async fn restart_all(&self);

    /// Stops the process of a server: connections stay open, nothing is answered.
    fn pause(&self, server: usize);

    /// Lets a paused server go on; it then works through what was sent meanwhile.
    fn resume(&self, server: usize);

    /// Separates a server from the others, in both directions. Clients still reach it.
    ///
    /// Only servers that were started apart can be separated.
    async fn isolate(&self, server: usize);

    /// Ends the separation. What was held back arrives now.
    fn rejoin(&self);
}

/// Ports of 127.0.0.1 as the hosts of a URL.
#[must_use]
pub fn hosts(ports: impl IntoIterator<Item = u16>) -> String {
    let hosts = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
    hosts.collect::<Vec<_>>().join(",")
}
