//! A conversation with rust-analyzer about one file.

use std::io::BufReader;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use lsp_server::{Message, Notification, Request, RequestId, Response};
use serde_json::{Value, json};

use super::{NAME, Place};

/// It compiles the macro and what that needs before it answers.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) struct Session {
    server: Child,
    input: ChildStdin,
    messages: Receiver<Message>,
    file: String,
    asked: i32,
}

impl Session {
    /// Starts the server for the crate in `root`, whose only file is `source`, and waits until it
    /// knows all about it.
    pub(super) fn open(root: &Path, source: &str) -> Result<Self, String> {
        let mut server = Command::new("rust-analyzer")
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("rust-analyzer cannot be run: {error}"))?;
        let input = server.stdin.take().expect("it is piped");
        let mut output = BufReader::new(server.stdout.take().expect("it is piped"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            while let Ok(Some(message)) = Message::read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut session = Self {
            server,
            input,
            messages,
            file: format!("file://{}", root.join("src/lib.rs").display()),
            asked: 0,
        };
        session.initialize(root, source)?;
        Ok(session)
    }

    fn initialize(&mut self, root: &Path, source: &str) -> Result<(), String> {
        self.ask(
            "initialize",
            json!({
                "processId": std::process::id(),
                "rootUri": format!("file://{}", root.display()),
                "capabilities": { "experimental": { "serverStatusNotification": true } },
                "initializationOptions": { "checkOnSave": false },
            }),
        )?;
        self.tell("initialized", json!({}))?;
        let document = json!({
            "uri": self.file, "languageId": "rust", "version": 1, "text": source,
        });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }))?;
        loop {
            if let Message::Notification(told) = self.next()?
                && told.method == "experimental/serverStatus"
                && told.params["quiescent"] == true
            {
                return Ok(());
            }
        }
    }

    pub(super) fn definition(&mut self, place: Place) -> Result<Vec<Place>, String> {
        let found = self.ask_at("textDocument/definition", place, json!({}))?;
        places(items(&found).map(|it| &it["range"]))
    }

    pub(super) fn references(&mut self, place: Place) -> Result<Vec<Place>, String> {
        let all = json!({ "context": { "includeDeclaration": true } });
        let found = self.ask_at("textDocument/references", place, all)?;
        places(items(&found).map(|it| &it["range"]))
    }

    pub(super) fn rename(&mut self, place: Place) -> Result<Vec<Place>, String> {
        let name = json!({ "newName": format!("{NAME}_2") });
        let found = self.ask_at("textDocument/rename", place, name)?;
        let files = items(&found["documentChanges"]);
        let edits = files.flat_map(|file| items(&file["edits"]));
        places(edits.map(|edit| &edit["range"]))
    }

    fn ask_at(&mut self, method: &str, place: Place, mut more: Value) -> Result<Value, String> {
        more["textDocument"] = json!({ "uri": self.file });
        more["position"] = place.to_json();
        self.ask(method, more)
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.asked += 1;
        let id = RequestId::from(self.asked);
        self.send(&Request::new(id.clone(), method.to_owned(), params).into())?;
        loop {
            match self.next()? {
                Message::Response(response) if response.id == id => {
                    let answer = response.response_result;
                    return answer.map_err(|error| format!("{method}: {}", error.message));
                }
                _ => {}
            }
        }
    }

    fn tell(&mut self, method: &str, params: Value) -> Result<(), String> {
        self.send(&Notification::new(method.to_owned(), params).into())
    }

    fn send(&mut self, message: &Message) -> Result<(), String> {
        let sent = message.write(&mut self.input);
        sent.map_err(|error| format!("rust-analyzer has gone: {error}"))
    }

    /// The next message; what the server asks of us is answered with nothing.
    fn next(&mut self) -> Result<Message, String> {
        let message = self.messages.recv_timeout(PATIENCE);
        let message = message.map_err(|_| "rust-analyzer says nothing".to_owned())?;
        if let Message::Request(request) = &message {
            self.send(&Response::new_ok(request.id.clone(), Value::Null).into())?;
        }
        Ok(message)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Either it has gone by itself, or it goes now.
        let _killed = self.server.kill();
        let _gone = self.server.wait();
    }
}

fn places<'a>(ranges: impl Iterator<Item = &'a Value>) -> Result<Vec<Place>, String> {
    let places: Option<Vec<Place>> = ranges.map(Place::from_range).collect();
    let mut places = places.ok_or("an answer without places")?;
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
