//! Conversations in files: writing one, and going on with one.

use std::{collections::BTreeMap, path::Path};

use super::{Conversation, Flow, Saved, Window, say};
use crate::{
    args::{Rank, Tunable},
    chat::saved,
    errors::Error,
    settings::Source,
};

impl Conversation<'_> {
    /// Writes the conversation, with the settings that are not the program's own; over a file that is there only if that is
    /// wanted, or if it is this conversation's.
    pub(super) fn save(&mut self, path: &Path, over: bool) -> Result<Flow, Error> {
        if !over && self.file.as_deref() != Some(path) && path.exists() {
            return Ok(Flow::Overwrite(path.to_owned()));
        }
        let names = Tunable::names();
        let changed = self.settings.iter().filter(|setting| {
            let is_changeable = names.iter().any(|(name, _)| *name == setting.name);
            is_changeable && !matches!(setting.source, Source::Start(Rank::Default, _))
        });
        let saved = Saved {
            candor: env!("CARGO_PKG_VERSION").to_owned(),
            model: self.model_name(),
            system: self.system.clone(),
            messages: self.turns.clone(),
            settings: changed.map(|setting| (setting.name.clone(), saved::plain(&setting.values))).collect(),
        };
        saved.write(path)?;
        self.file = Some(path.to_owned());
        say!("saved {} messages to {}", self.turns.len(), path.display());
        Ok(Flow::GoOn)
    }

    /// Goes on with a conversation in a file. Flags of the command line stay what they are.
    pub fn load(&mut self, path: &Path) -> Result<(), Error> {
        let saved = Saved::read(path)?;
        let mut tunable = self.tunable.clone();
        let (mut changed, mut kept) = (BTreeMap::new(), Vec::new());
        for (name, value) in saved.settings {
            let values = saved::values(&value).ok_or_else(|| Error::NotSaved {
                path: path.to_owned(),
                got: format!("a setting {name} of {value}"),
            })?;
            if values.is_empty() {
                continue;
            }
            let mut with = tunable.clone();
            let name = with.set(&name, &values)?;
            let flag = self.settings.iter().find(|setting| setting.name == name);
            match flag.filter(|setting| matches!(setting.source, Source::Start(Rank::Flag, _))) {
                Some(flag) if flag.values == values => {}
                Some(flag) => kept.push(format!("{name} stays {}, as the command line says", flag.values.join(", "))),
                None => {
                    tunable = with;
                    changed.insert(name, values);
                }
            }
        }
        self.tunable = tunable;
        for (name, values) in changed {
            self.note_setting(&name, values);
        }
        (self.system, self.turns, self.failed) = (saved.system, saved.messages, None);
        self.window = Window::default();
        self.file = Some(path.to_owned());
        for note in kept {
            say!("note: {note}");
        }
        say!("loaded {} messages from {}", self.turns.len(), path.display());
        Ok(())
    }
}
