//! Who guesses tokens ahead, by the flags. What comes of guesses is the library's business.

use candor::{
    Model, Session, SessionOptions,
    fit::Takes,
    speculate::{DraftModel, PromptLookup, Speculation},
};

use crate::{
    args::{Line, OutputArgs, PerformanceArgs, SpeculationArgs},
    errors::Error,
    open::Source,
    output::say,
};

/// Tokens by which a context beside a draft model may be shorter than it could be.
const STEP: usize = 256;

/// Who guesses.
enum Guesser {
    Nobody,
    Text,
    Model(Source),
}

/// What the flags say.
pub struct Guesses<'a> {
    args: &'a SpeculationArgs,
    guesser: Guesser,
}

impl<'a> Guesses<'a> {
    /// What the flags say.
    ///
    /// # Errors
    /// If two are to guess.
    pub fn of(line: &Line, args: &'a SpeculationArgs) -> Result<Guesses<'a>, Error> {
        let ids = ["model_draft", "prompt_lookup"];
        let given = line.exclusive(if args.prompt_lookup { &ids } else { &ids[..1] })?;
        let guesser = match (given, &args.model_draft) {
            (Some("model_draft"), Some(path)) => Guesser::Model(Source::meant(line, path)?),
            (Some("prompt_lookup"), _) => Guesser::Text,
            _ => Guesser::Nobody,
        };
        Ok(Guesses { args, guesser })
    }

    /// The options of a session whose context is left open, with room for a draft model beside it.
    pub fn leave_room(&self, model: &Model, options: SessionOptions) -> Result<SessionOptions, Error> {
        let (Guesser::Model(source), true) = (&self.guesser, options.context == 0 && options.fit) else {
            return Ok(options);
        };
        let gguf = source.gguf()?;
        let beside =
            |context: usize| Ok::<_, Error>(options.spare(Takes::of(&gguf, &options.context(context))?.total()));
        // Its context is as long as the model's, which is the shorter for it.
        let holds = |context| Ok::<_, Error>(model.fit(&beside(context)?).is_ok_and(|fit| fit.context >= context));
        let mut too_long = model.fit(&options)?.context;
        if holds(too_long)? {
            return beside(too_long);
        }
        let mut held = options.least_context.min(too_long);
        while too_long - held > STEP {
            let middle = held + (too_long - held) / 2;
            *(if holds(middle)? { &mut held } else { &mut too_long }) = middle;
        }
        beside(held)
    }

    /// Lets a session guess; `options` are its own.
    pub fn begin(
        &self,
        session: &mut Session,
        performance: &PerformanceArgs,
        options: SessionOptions,
        output: &OutputArgs,
    ) -> Result<(), Error> {
        let speculation = match &self.guesser {
            Guesser::Nobody => return Ok(()),
            Guesser::Text => Speculation::new(PromptLookup::default()),
            Guesser::Model(source) => {
                let options = options.context(session.context());
                let opened = source.clone().open(performance, Vec::new(), options, output)?;
                let draft = opened.model.session(&options)?;
                let drafter = DraftModel::new(draft, session.model(), self.args.draft_p_min)?;
                if output.verbose {
                    say!("draft model: {}, {}", source.name(), opened.model.device_label());
                }
                Speculation::new(drafter)
            }
        };
        let (most, least) = (self.args.draft_max as usize, self.args.draft_min as usize);
        Ok(session.speculate(Some(Speculation { most, least, ..speculation }))?)
    }
}
