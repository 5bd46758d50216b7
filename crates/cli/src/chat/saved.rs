//! A conversation in a file: JSON with the messages, the system prompt and the settings that may change.

use std::{collections::BTreeMap, fs, path::Path};

use candor::Message;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use crate::errors::Error;

/// The file of `/save` and `/load` without a name.
pub const DEFAULT_FILE: &str = "candor-chat.json";

/// A conversation in a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The version of the program that wrote it.
    pub candor: String,
    /// The model that answered.
    pub model: String,
    /// The system prompt.
    #[serde(default)]
    pub system: Option<String>,
    /// What was said.
    pub messages: Vec<Turn>,
    /// Values by the long names of flags.
    #[serde(default)]
    pub settings: BTreeMap<String, Vec<String>>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Turn {
    /// The library's message.
    pub fn message(&self) -> Message {
        match self.role {
            Role::User => Message::user(&self.content),
            Role::Assistant => Message::assistant(&self.content),
        }
    }
}

impl Saved {
    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_string_pretty(self).map_err(|error| Error::Output(error.into()))?;
        text.push('\n');
        fs::write(path, text).map_err(|error| Error::File { path: path.to_owned(), error })
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Saved, Error> {
        let text = fs::read(path).map_err(|error| Error::File { path: path.to_owned(), error })?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::NotSaved { path: path.to_owned(), got: got(&text, &error) })
    }
}

/// What a file is that is no saved conversation. JSON may be one that was edited: its fault is said.
fn got(bytes: &[u8], error: &serde_json::Error) -> String {
    match (bytes.trim_ascii_start().first(), error.classify()) {
        (None, _) => "an empty file".to_owned(),
        (Some(b'{'), Category::Data) => format!("other JSON: {error}"),
        (Some(b'{'), _) => format!("broken JSON: {error}"),
        _ => "something else".to_owned(),
    }
}
