//! The terminal: reads its keys and draws the screen.

use std::{
    io::stdout,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use dlock_admin::Inspect;
use dlock_admin_web::Server;
use ratatui::{
    DefaultTerminal,
    backend::Backend as _,
    crossterm::{
        event::{self, Event, KeyEventKind},
        execute,
        terminal::{EnterAlternateScreen, enable_raw_mode},
    },
};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::{MissedTickBehavior, interval},
};

use super::{
    model::{Message, Model, Step},
    source::Source,
    view,
};
use crate::{
    exit::{Exit, Failure},
    global::Global,
    interrupt::{continued, interrupted},
};

/// The limit of messages that wait for a slow terminal.
const WAITING: usize = 64;

/// The terminal of this process. A drop restores it. After a panic a hook of ratatui restores it.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self, Failure> {
        Ok(Self(ratatui::try_init()?))
    }

    /// Stops the program and those that were started with it, as Ctrl-Z does where a terminal reads it by itself. Returns when
    /// they are continued, or at once if no shell could continue them: the system does not stop them then.
    #[cfg(unix)]
    fn suspend(&mut self) -> Result<(), Failure> {
        self.0.show_cursor()?;
        ratatui::try_restore()?;
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)
            .map_err(std::io::Error::from)?;
        self.take_back()
    }

    /// Takes the terminal again after others have had it. Nothing on it can be relied on.
    fn take_back(&mut self) -> Result<(), Failure> {
        // The modes to restore in the end are those that the shell has left.
        ratatui::try_restore()?;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        self.0.backend_mut().clear()?;
        // The next drawing compares with an empty screen.
        self.0.swap_buffers();
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(crate) async fn run(
    global: &Global,
    every: Duration,
    inspector: Arc<dyn Inspect>,
) -> Result<Exit, Failure> {
    let grants = Arc::new(AtomicU64::new(0));
    let (sender, messages) = channel(WAITING);
    let source = Source {
        global: global.clone(),
        interval: every,
        grants: Arc::clone(&grants),
        messages: sender.clone(),
    };
    let mut screen = Screen::open()?;
    read_keys(sender);
    let source = tokio::spawn(source.run(inspector));
    let model = Model::new(&global.namespace_in_use(), Server::default());
    let outcome = show(&mut screen, model, messages, &grants).await;
    source.abort();
    outcome
}

async fn show(
    screen: &mut Screen,
    mut model: Model,
    mut messages: Receiver<Message>,
    grants: &AtomicU64,
) -> Result<Exit, Failure> {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first tick completes at once, before a second has passed.
    seconds.tick().await;
    let mut interrupted = pin!(interrupted());
    let mut continued = continued();
    loop {
        screen.0.draw(|frame| view::draw(frame, &model))?;
        let mut step = tokio::select! {
            code = &mut interrupted => return Ok(Exit::Command(code)),
            () = continued.next() => {
                screen.take_back()?;
                Step::Go
            }
            _ = seconds.tick() => model.update(Message::Second(grants.swap(0, Ordering::Relaxed))),
            message = messages.recv() => model.update(message.unwrap_or(Message::Closed)),
        };
        // Apply all messages that arrived meanwhile before the next drawing.
        while step == Step::Go
            && let Ok(message) = messages.try_recv()
        {
            step = model.update(message);
        }
        match step {
            Step::Go => {}
            #[cfg(unix)]
            Step::Suspend => screen.suspend()?,
            Step::Quit => return Ok(Exit::Success),
        }
    }
}

/// Reads keys on a separate thread, which ends with the process: the read cannot be interrupted.
fn read_keys(messages: Sender<Message>) {
    thread::spawn(move || {
        loop {
            let message = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Message::Key(key),
                Ok(Event::Resize(..)) => Message::Resized,
                Ok(_) => continue,
                // The terminal was closed.
                Err(_) => Message::Closed,
            };
            let is_last = matches!(message, Message::Closed);
            if messages.blocking_send(message).is_err() || is_last {
                return;
            }
        }
    });
}
