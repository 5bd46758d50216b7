//! What `/show` and Ollama's switches of `/set` do.

use super::{Conversation, Flow, say};
use crate::{
    chat::commands::SHOWN,
    errors::Error,
    near::nearest,
    output::{Count, grouped},
    show::summary::Summary,
};

impl Conversation<'_> {
    /// Says something of the model or of the settings.
    pub(super) fn show(&mut self, what: &str) -> Result<(), Error> {
        match what.to_lowercase().as_str() {
            "" | "info" => self.show_info(),
            "license" => self.show_license(),
            "modelfile" => return Err(Error::NoModelfile),
            "parameters" => self.set("")?,
            "system" => self.system(""),
            "template" => say!("{}", self.template_text()?),
            _ => {
                let near = nearest(what, SHOWN.iter().copied()).map(|near| format!("/show {near}"));
                return Err(Error::NotShown { what: what.to_owned(), near });
            }
        }
        Ok(())
    }

    fn show_info(&self) {
        let model = &self.opened.model;
        let (summary, config) = (Summary::of(model.gguf()), model.config());
        let rows = [
            ("model", self.model_name()),
            ("name", summary.name.clone().unwrap_or_else(|| "-".to_owned())),
            ("architecture", summary.architecture.clone().unwrap_or_else(|| "-".to_owned())),
            ("parameters", Count(summary.parameters).to_string()),
            ("context length", grouped(config.context as u64)),
            ("embedding length", grouped(config.dim as u64)),
            ("quantization", summary.formats_line()),
            ("device", model.device_label().to_owned()),
        ];
        for (name, value) in rows {
            say!("  {name:<18} {value}");
        }
    }

    fn show_license(&self) {
        let metadata = self.opened.model.gguf().metadata();
        let keys = ["general.license", "general.license.name", "general.license.link"];
        let lines: Vec<&str> = keys.iter().filter_map(|key| metadata.str(key).ok().flatten()).collect();
        match lines.as_slice() {
            [] => say!("the model's file names no license"),
            lines => lines.iter().for_each(|line| say!("{line}")),
        }
    }

    /// The template in use, as its file has it.
    fn template_text(&self) -> Result<String, Error> {
        let args = &self.args.template;
        if let Some(path) = &args.chat_template_file {
            return crate::text::of_file(path);
        }
        let text = self.opened.model.gguf().metadata().str("tokenizer.chat_template").ok().flatten();
        text.map(str::to_owned).ok_or_else(|| candor::Error::NoChatTemplate.into())
    }

    /// Turns something on or off that is no setting of the answers.
    pub(super) fn switch(&mut self, what: &str) -> Flow {
        match what {
            "verbose" | "quiet" => self.verbose = what == "verbose",
            "wordwrap" | "nowordwrap" => self.wraps = what == "wordwrap",
            _ => {
                say!("{}", if what == "history" { "lines are kept for later" } else { "lines are no longer kept" });
                return Flow::History(what == "history");
            }
        }
        say!(
            "{}",
            match what {
                "verbose" => "speeds are shown after each answer",
                "quiet" => "speeds are no longer shown",
                "wordwrap" => "lines are broken between words",
                _ => "lines are broken where the terminal ends",
            }
        );
        Flow::GoOn
    }
}
