//! Slots that move from node to node, as a whole or step by step.

use super::Cluster;

impl Cluster {
    /// Moves a slot with all its keys to another master.
    pub async fn migrate(&self, slot: u16, to: usize) {
        self.begin_migration(slot, to).await;
        self.move_keys(slot, to).await;
        self.end_migration(slot, to).await;
    }

    /// Opens a slot at both ends. From now on, requests for keys that are not there, or only in
    /// part, are sent on or put off.
    pub async fn begin_migration(&self, slot: u16, to: usize) {
        self.rearrange();
        let from = self.master_of_slot(slot).await;
        let (slot, source) = (slot.to_string(), &self.nodes[from].id);
        let target = &self.nodes[to];
        target
            .order::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", source])
            .await;
        self.nodes[from]
            .order::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id])
            .await;
    }

    /// Moves the keys that are there now.
    pub async fn move_keys(&self, slot: u16, to: usize) {
        loop {
            let keys = self.keys_in(slot, to).await;
            if keys.is_empty() {
                return;
            }
            for key in keys {
                self.move_key(&key, to).await;
            }
        }
    }

    /// Moves one key of a slot that is being moved; it may have gone by now.
    pub async fn move_key(&self, key: &str, to: usize) {
        let from = self.master_of(key).await;
        let port = self.nodes[to].server.port().to_string();
        let outcome: String = self.nodes[from]
            .order(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"])
            .await;
        assert!(outcome == "OK" || outcome == "NOKEY", "{key}: {outcome}");
    }

    /// Gives the slot to its new master.
    pub async fn end_migration(&self, slot: u16, to: usize) {
        self.rearrange();
        let from = self.master_of_slot(slot).await;
        // The new owner first: otherwise the slot would have no owner for a moment.
        let (text, id) = (slot.to_string(), &self.nodes[to].id);
        let words = ["CLUSTER", "SETSLOT", &text, "NODE", id];
        self.nodes[to].order::<()>(&words).await;
        self.nodes[from].order::<()>(&words).await;
        for node in self.up() {
            if node != from && node != to {
                // A replica is not asked, and learns of it from its master.
                self.nodes[node].try_order(&words).await;
            }
        }
        assert_eq!(self.master_of_slot(slot).await, to);
    }

    /// The keys of a slot that its owner has, unless that is `to`.
    async fn keys_in(&self, slot: u16, to: usize) -> Vec<String> {
        let from = self.master_of_slot(slot).await;
        if from == to {
            return Vec::new();
        }
        self.nodes[from]
            .order(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"])
            .await
    }
}
