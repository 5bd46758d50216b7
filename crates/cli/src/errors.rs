//! What ends a command: one line for the user, a hint where there is one, and the exit code.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use candor::{
    ChatTemplate,
    error::{GgufError, ModelError, OpsError, TokenizerError},
    fit::Shortage,
    overrides::OverrideError,
    sampler::{Error as SamplerError, SamplerKind},
};
use candor_convert::FileType;
use candor_inspect::{
    DiagnoseError,
    divergence::Error as DivergenceError,
    file::WriteError,
    imatrix::Error as ImatrixError,
    import::ImportError,
    record::{RecordError, SelectionError},
    target::Error as TargetError,
    verify::VerifyError,
};
use candor_server::Failure;

use crate::{
    inspect::error as inspect,
    near::all_nearest,
    output::{Bytes, system},
    siblings::sibling,
};

/// The exit code of a command that was to give a verdict and could not.
const UNDECIDED: u8 = 2;

/// What ends a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is wrong, or asks for help.
    #[error("{}", first_line(.0))]
    Usage(Box<clap::Error>),
    /// No command was given.
    #[error("no command was given")]
    NoCommand,
    /// A variable has a value that its flag does not take.
    #[error("variable {variable}: {problem}")]
    Variable {
        /// The variable.
        variable: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// The configuration file is wrong.
    #[error("{}: {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What may be meant.
        hint: Option<String>,
    },
    /// The server cannot listen, or its model has failed.
    #[error("{0}")]
    Serve(Box<Failure<Error>>),
    /// A file cannot be read or written.
    #[error("{}: {}", path.display(), system(error))]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// There is no model at that path.
    #[error("{}: {problem}", path.display())]
    NoModel {
        /// The path.
        path: PathBuf,
        /// No such file, or a directory.
        problem: &'static str,
        /// What may be meant.
        hint: Option<String>,
    },
    /// Text that is not UTF-8.
    #[error("{name}: expected UTF-8, got byte 0x{byte:02x} at offset {offset}")]
    Utf8 {
        /// `stdin` or the file.
        name: String,
        /// Bytes before it.
        offset: usize,
        /// The first byte that is wrong.
        byte: u8,
    },
    /// Answers cannot have the shape that is asked for.
    #[error("{flag}: {problem}")]
    Shape {
        /// The flag that asks for it.
        flag: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A backslash that is followed by nothing that it escapes.
    #[error("escape \\{0} is unknown")]
    Escape(String),
    /// There is no prompt.
    #[error("there is no prompt")]
    NoPrompt,
    /// There is no text to measure.
    #[error("there is no text")]
    NoText,
    /// There are no texts, one on each line.
    #[error("there are no texts")]
    NoLines,
    /// Bytes that are no text were to go to a terminal.
    #[error("an npy file is not for a terminal")]
    Binary,
    /// A table was asked for whose rows belong to several texts.
    #[error("an npy file holds one vector for each text, and --pooling none gives one for each token of several")]
    Ragged,
    /// The platform has no folder for the configuration file, or the variable rules one out.
    #[error("there is no configuration file: CANDOR_CONFIG is empty, or there is no home folder")]
    NoConfigPath,
    /// There is nothing to answer.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A system prompt has no place in a text that is continued.
    #[error("a system prompt needs a chat template, and {0}")]
    SystemPrompt(&'static str),
    /// A chat template that llama.cpp has no name for.
    #[error("there is no chat template {name}")]
    UnknownTemplate {
        /// What was typed.
        name: String,
        /// What may be meant.
        near: Option<&'static str>,
    },
    /// A command of a conversation that does not exist.
    #[error("{typed} is no command")]
    UnknownCommand {
        /// What was typed.
        typed: String,
        /// What may be meant.
        near: Option<&'static str>,
    },
    /// A setting that does not exist, or cannot be changed between answers.
    #[error("{name} is no setting that can be changed here")]
    UnknownSetting {
        /// What was typed.
        name: String,
        /// What may be meant.
        near: Option<String>,
    },
    /// Something that `/show` does not show.
    #[error("/show {what}: there is no such thing to show")]
    NotShown {
        /// What was typed.
        what: String,
        /// What may be meant.
        near: Option<String>,
    },
    /// A file of another program that a model here does not have.
    #[error("/show modelfile: a model here is one GGUF file and flags, without a Modelfile")]
    NoModelfile,
    /// Nothing was said that could be answered again, changed or taken back.
    #[error("there is no message yet")]
    NothingSaid,
    /// A message cannot be changed where it cannot be typed.
    #[error("/edit: there is no line editor here that the last message could be changed in")]
    NoEditor,
    /// A file is there already.
    #[error("{}: the file is there already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A setting does not take a value.
    #[error("{0}")]
    Setting(String),
    /// A file that `/save` did not write.
    #[error("{}: expected a saved conversation, got {got}", path.display())]
    NotSaved {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        got: String,
    },
    /// The file of `--prompt-cache` is something else.
    #[error("{}: expected a prompt cache, got something else", path.display())]
    NoPromptCache {
        /// The file.
        path: PathBuf,
    },
    /// A manual page for a command that does not exist.
    #[error("{name} is no command of candor")]
    NoSuchPage {
        /// What was typed.
        name: String,
        /// What may be meant.
        near: Option<String>,
    },
    /// Ctrl-C cannot be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Interrupt(ctrlc::Error),
    /// The line editor failed.
    #[error("terminal: {0}")]
    Terminal(io::Error),
    /// Nobody reads the output any more.
    #[error("the output was closed")]
    Closed,
    /// The output cannot be written.
    #[error("cannot write the output: {}", system(.0))]
    Output(io::Error),
    /// A test of `candor bench` cannot be run.
    #[error("{test}: {error}")]
    Test {
        /// Its name.
        test: String,
        /// Why.
        error: Box<Error>,
    },
    /// A type of file that there isn't.
    #[error("{typed} is no type of file")]
    UnknownType {
        /// What was typed.
        typed: String,
        /// What may be meant.
        near: Option<&'static str>,
    },
    /// A file would be written over itself.
    #[error("{}: a file can't be written over the one that it is made of", path.display())]
    OntoInput {
        /// The file.
        path: PathBuf,
    },
    /// Logits would be written over a model.
    #[error("{}: it is a model, and logits would be written over it", path.display())]
    OntoModel {
        /// The file.
        path: PathBuf,
    },
    /// Of making a file.
    #[error(transparent)]
    Convert(#[from] candor_convert::Error),
    /// The library's.
    #[error(transparent)]
    Candor(#[from] candor::Error),
    /// Of models by name.
    #[error("{}", of_hub(.0))]
    Hub(#[from] candor_hub::Error),
    /// Of tracing, diagnosing or verifying.
    #[error(transparent)]
    Inspect(#[from] inspect::Error),
    /// Spans can't be sent.
    #[cfg(feature = "otel")]
    #[error("spans can't be sent: {problem}")]
    Collector {
        /// What is wrong.
        problem: String,
    },
    /// What a variable or the configuration file set, and not the command line, is wrong.
    #[error("{error} ({origin})")]
    Origin {
        /// What is wrong.
        error: Box<Error>,
        /// Where it was set.
        origin: String,
    },
    /// A command whose exit code is a verdict did not get to one.
    #[error(transparent)]
    Undecided(Box<Error>),
}

impl From<Failure<Error>> for Error {
    fn from(failure: Failure<Error>) -> Self {
        match failure {
            Failure::Load(error) => error,
            Failure::Model(error) => Error::Candor(error),
            failure => Error::Serve(Box::new(failure)),
        }
    }
}

impl From<GgufError> for Error {
    fn from(error: GgufError) -> Self {
        Error::Candor(error.into())
    }
}

impl From<TokenizerError> for Error {
    fn from(error: TokenizerError) -> Self {
        Error::Candor(error.into())
    }
}

/// Errors of writing to stdout.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::Closed,
            _ => Error::Output(error),
        }
    }
}

macro_rules! through_inspect {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::Inspect(error.into())
            }
        }
    )*};
}
through_inspect!(ImportError, DiagnoseError, WriteError, SelectionError);

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Candor(error) => error.into(),
            error => Error::Inspect(error.into()),
        }
    }
}

impl From<ImatrixError> for Error {
    fn from(error: ImatrixError) -> Self {
        match error {
            ImatrixError::Model(error) => error.into(),
            ImatrixError::Sum(error) => error.into(),
        }
    }
}

impl From<TargetError> for Error {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Convert(error) => error.into(),
            TargetError::Divergence(error) => error.into(),
            TargetError::Imatrix(error) => error.into(),
            error => Error::Inspect(error.into()),
        }
    }
}

impl From<DivergenceError> for Error {
    fn from(error: DivergenceError) -> Self {
        match error {
            DivergenceError::Model(error) => error.into(),
            DivergenceError::Io { path, source } => Error::File { path, error: source },
            error => Error::Inspect(error.into()),
        }
    }
}

impl From<RecordError> for Error {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Run(error) => error.into(),
            RecordError::Write(error) => error.into(),
        }
    }
}

impl Error {
    /// As the end of a command whose exit code is a verdict.
    pub fn undecided(self) -> Error {
        match self {
            Error::Usage(_) | Error::Closed => self,
            error => Error::Undecided(Box::new(error)),
        }
    }

    /// With the place where what is wrong was set.
    pub fn of(self, origin: String) -> Error {
        match self {
            Error::Undecided(error) => Error::Undecided(Box::new(error.of(origin))),
            error => Error::Origin { error: Box::new(error), origin },
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Error::File { path, error } if error.kind() == io::ErrorKind::NotFound => return sibling(path),
            Error::Serve(failure) => match failure.as_ref() {
                Failure::Tls { .. } => {
                    "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem makes a pair"
                }
                Failure::Address { .. } => "--port 0 takes any free port, --host 127.0.0.1 is this machine alone",
                _ => return None,
            },
            Error::Config { hint, .. } | Error::NoModel { hint, .. } => return hint.clone(),
            Error::Inspect(error) => return error.hint(),
            Error::Hub(error) => return error.hint(),
            #[cfg(feature = "otel")]
            Error::Collector { .. } => "a collector listens at http://localhost:4318/v1/traces",
            Error::Test { .. } => "-p, -n, -d and -B say how many positions a test needs",
            Error::Undecided(error) | Error::Origin { error, .. } => return error.hint(),
            Error::UnknownTemplate { near, .. } => {
                let meant = near.map(|near| format!("is {near} meant? ")).unwrap_or_default();
                return Some(format!("{meant}The names are {}", ChatTemplate::names().join(", ")));
            }
            Error::UnknownCommand { near, .. } => match near {
                Some(near) => return Some(format!("is {near} meant?")),
                None => "/help lists the commands",
            },
            Error::NoSuchPage { near, .. } => return near.as_ref().map(|near| format!("is {near} meant?")),
            Error::NotShown { near, .. } => match near {
                Some(near) => return Some(format!("is {near} meant?")),
                None => "/show takes info, license, parameters, system or template",
            },
            Error::NothingSaid => "a line that is no command is a message",
            Error::NoEditor => "/edit TEXT changes it",
            Error::NoModelfile => "/show info, /show parameters, /show system and /show template say what one would",
            Error::Exists { .. } => "/save! FILE writes over it",
            Error::UnknownSetting { near, .. } => match near {
                Some(near) => return Some(format!("is {near} meant?")),
                None => "/set lists the settings",
            },
            Error::UnknownType { near, .. } => match near {
                Some(near) => return Some(format!("is {near} meant?")),
                None => {
                    return Some(format!(
                        "the types are {}",
                        FileType::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
                    ));
                }
            },
            Error::OntoInput { .. } => "give the new file another name",
            Error::OntoModel { .. } => "--kl-divergence measures how far the model is from it",
            Error::Convert(error) => return convert_hint(error),
            Error::NotSaved { .. } => "/save FILE writes one, as JSON",
            Error::Candor(candor::Error::Sampler(SamplerError::UnknownSampler { name })) => {
                if name.contains([',', ' ', ':']) {
                    return Some("names have ; between them: --samplers 'top_k;temperature'".to_owned());
                }
                let near = all_nearest(name, SamplerKind::DEFAULT_ORDER.map(SamplerKind::name));
                return (!near.is_empty()).then(|| format!("is {} meant?", near.join(" or ")));
            }
            Error::Shape { flag: "--json-schema" | "--json-schema-file", .. } => {
                "docs/cli.md lists the keywords that are served; --grammar takes what a schema cannot say"
            }
            Error::Escape(_) => r#"the escapes are \n \t \r \\ \" \' and \x41"#,
            Error::NoPromptCache { .. } => "--prompt-cache names a file of its own, which is made where there is none",
            Error::Candor(candor::Error::Adapter { error, .. }) => return Some(adapter_hint(error).to_owned()),
            Error::Candor(candor::Error::AdapterAsModel { .. }) => {
                "--lora FILE applies it to a model: candor run MODEL --lora FILE"
            }
            Error::Candor(candor::Error::ControlVector) => "candor runs models, and LoRA adapters of them with --lora",
            Error::Candor(candor::Error::Saved(_)) => "--device cpu runs on the processor; or leave out --prompt-cache",
            Error::Candor(candor::Error::SpeculationOnStates { .. }) => "leave out --model-draft and --prompt-lookup",
            Error::Candor(candor::Error::DraftVocabulary { .. } | candor::Error::DraftVocabularySize { .. }) => {
                "a draft model is a smaller one of the same family, with the same vocabulary"
            }
            Error::NoPrompt => "give one with -p TEXT, -f FILE or through a pipe; candor chat starts a conversation",
            Error::NoText => "give one with -f FILE or through a pipe",
            Error::NoLines => "give one on each line of -f FILE or of stdin",
            Error::Binary => "-o FILE writes it; --embd-output-format json is text",
            Error::Ragged => "--embd-output-format json holds them; or give one text",
            Error::Candor(candor::Error::Encoder { .. }) => "candor embed makes vectors with it",
            Error::Candor(candor::Error::Answers { .. } | candor::Error::NotForAnswers { .. }) => {
                "candor run -p TEXT answers a text, candor embed makes vectors of it"
            }
            Error::Candor(candor::Error::NoPooling(_)) => "--pooling mean, cls or last says it",
            Error::Candor(candor::Error::NoRank) => "candor embed makes vectors with it, which can be compared",
            Error::Candor(candor::Error::TextTooLong { .. }) => "--truncate cuts texts off",
            Error::EmptyPrompt => "give one with -p TEXT, or --raw to let the model begin a text of its own",
            Error::SystemPrompt(_) => "--chat-template NAME or --chat-template-file FILE gives the model a template",
            Error::Candor(candor::Error::EmptyPrompt) => "give one with -p TEXT",
            Error::Candor(candor::Error::PromptTooLong { .. }) => {
                "-c N makes the context longer (in a conversation /set num_ctx N), --context-shift forgets the older half of \
                 the text"
            }
            Error::Candor(candor::Error::Memory(shortage)) => return Some(shorter(shortage)),
            Error::Candor(candor::Error::WeightsMemory { .. }) => {
                "weights that are mapped (without --no-mmap, and not for --device reference) need not stay in memory"
            }
            Error::Candor(candor::Error::ContextLimit { .. }) => "-c N makes the context shorter",
            Error::Candor(candor::Error::Gguf(error)) if no_room(error) => {
                "a limit of this process is less than the file: ulimit -v shows it"
            }
            Error::Candor(candor::Error::Model(ModelError::Ops(OpsError::Cache { .. }))) => {
                "-ctk f16 and -ctv f16 take heads of any width"
            }
            Error::Candor(candor::Error::NoChatTemplate) => {
                return Some(format!(
                    "candor run --raw continues a text without one; --chat-template-file FILE gives the model a template, \
                     and --chat-template NAME one of these: {}",
                    ChatTemplate::names().join(", ")
                ));
            }
            Error::Candor(candor::Error::Tokenizer(
                TokenizerError::TemplateSyntax { .. } | TokenizerError::TemplateRender { .. },
            )) => {
                "--chat-template NAME or --chat-template-file FILE gives the model another template, --raw goes without"
            }
            Error::Candor(candor::Error::TextTooShort { .. }) => "-c N makes the windows shorter",
            Error::Candor(candor::Error::MissingOnGpu { .. }) => {
                "--device cpu runs it on the processor, as --device auto would"
            }
            Error::Candor(candor::Error::NoGpu | candor::Error::BuiltWithoutGpu) => {
                "--device cpu runs on the processor; `candor devices` lists what there is; what is emulated in software runs \
                 only by its name"
            }
            Error::Candor(candor::Error::Model(ModelError::Undivided)) => {
                "-ngl all gives all of it to one GPU, -ngl 0 to the processor; -ngl auto chooses"
            }
            Error::Candor(candor::Error::Model(ModelError::Ops(OpsError::Device { what, .. }))) => {
                match what.contains("out of memory") {
                    true => {
                        "-ngl with fewer layers (or auto), a shorter context (-c) or a smaller cache (-ctk q8_0 -ctv q8_0) \
                         takes less of the GPU's memory; --device cpu runs on the processor"
                    }
                    false => "another run starts the GPU anew; --device cpu runs on the processor",
                }
            }
            Error::Candor(candor::Error::Model(ModelError::Ops(OpsError::Format { backend: "the gpu", .. }))) => {
                "--gpu-dequant holds such weights as F16 on the GPU; --device cpu runs on the processor"
            }
            Error::Candor(candor::Error::Untrusted { .. }) => {
                "--device cpu runs on the processor; `candor verify` shows all that is wrong; another driver may do better; \
                 --no-verify takes the GPU all the same"
            }
            Error::Candor(candor::Error::NoSuchDevice { name, .. }) if is_vendors(name) => {
                "GPUs of all makers compute by Vulkan, Metal or DirectX 12: --device gpu, vulkan, metal or dx12"
            }
            Error::Candor(candor::Error::NoSuchDevice { .. }) => "`candor devices` says what each of them is",
            Error::Candor(candor::Error::NoInterface { .. }) => {
                "--device gpu takes what there is, --device cpu runs on the processor; what is emulated in software runs only \
                 by its name"
            }
            Error::Candor(candor::Error::Override(error)) => return override_hint(error).map(str::to_owned),
            Error::Candor(candor::Error::Gguf(error)) => return gguf_hint(error).map(str::to_owned),
            Error::Candor(candor::Error::Isa(_)) => "unset CANDOR_ISA to take the best that the machine has",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// Says what happened on stderr (help on stdout) and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Error::Usage(error) => {
                let printed = error.print().and_then(|()| io::stdout().flush());
                match printed.map_err(Error::from) {
                    Err(unwritten @ Error::Output(_)) if !error.use_stderr() => unwritten.report(),
                    // A closed pipe or terminal is no reason to fail differently.
                    _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
                }
            }
            Error::Closed => ExitCode::SUCCESS,
            Error::Undecided(_) => {
                self.say();
                ExitCode::from(UNDECIDED)
            }
            _ => {
                self.say();
                ExitCode::FAILURE
            }
        }
    }

    /// Says what happened on stderr.
    pub fn say(&self) {
        crate::output::say!("error: {}", one_line(&self.to_string()));
        if let Some(hint) = self.hint() {
            crate::output::say!("hint: {hint}");
        }
    }
}

/// What is said of a model by name: of a file as the system's faults are said elsewhere.
fn of_hub(error: &candor_hub::Error) -> String {
    match error {
        candor_hub::Error::File { path, error } => format!("{}: {}", path.display(), system(error)),
        candor_hub::Error::Space { folder, needed, free } => {
            format!("{}: {} more are needed, {} are free", folder.display(), Bytes(*needed), Bytes(*free))
        }
        error => error.to_string(),
    }
}

/// What can be done about a context that does not fit.
fn shorter(shortage: &Shortage) -> String {
    const WEIGHTS: &str = "--fit off takes one all the same, and weights are read from the file again and again";
    let cache = "-ctk q8_0 -ctv q8_0 halves its keys and values";
    match (shortage.longest, shortage.takes.weights) {
        (0, 0) => format!("-c N makes the context shorter; {cache}"),
        (0, _) => format!("a smaller model is quick here; {WEIGHTS}"),
        (longest, 0) => format!("-c {longest} fits; {cache}"),
        (longest, _) => format!("-c {longest} fits; {cache}; {WEIGHTS}"),
    }
}

/// Whether the system had no memory for a file.
fn no_room(error: &GgufError) -> bool {
    match error {
        GgufError::In { error, .. } => no_room(error),
        GgufError::Io { error, .. } => error.kind() == io::ErrorKind::OutOfMemory,
        _ => false,
    }
}

/// What can be done about a file that is not whole.
fn gguf_hint(error: &GgufError) -> Option<&'static str> {
    match error {
        GgufError::In { error, .. } => gguf_hint(error),
        GgufError::PastEnd { .. } | GgufError::Truncated { .. } | GgufError::Count { .. } => {
            Some("the file was cut short or damaged: download or copy it again; `candor doctor` says more")
        }
        GgufError::ShardMissing { .. } => Some("all shards belong into the same folder"),
        _ => None,
    }
}

/// What can be done about a file that can't be made.
fn convert_hint(error: &candor_convert::Error) -> Option<String> {
    use candor_convert::Error;
    let text = match error {
        Error::Gguf(error) => return gguf_hint(error).map(str::to_owned),
        Error::Requantized { .. } => {
            "a file of F16, BF16 or F32 loses least; --allow-requantize takes this one all the same"
        }
        Error::NeedsImportance { .. } => "--imatrix FILE gives one, as llama-imatrix makes it",
        Error::Unmade { .. } => "IQ4_XS and Q2_K are the smallest that can be made",
        Error::Pattern { .. } => "a part of the name will do: --tensor-type ffn_down=q6_k",
        Error::Rows { .. } => "another format fits: those of blocks of 32, such as Q8_0",
        Error::NotFinite { .. } => "`candor doctor` says what else is wrong with the file",
        Error::Importance { .. } => "an importance matrix fits the model that it was made of",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether a device is called as in llama.cpp, by a maker's own interface.
fn is_vendors(name: &str) -> bool {
    const NAMES: [&str; 11] =
        ["cuda", "rocm", "hip", "musa", "sycl", "opencl", "openvino", "cann", "kompute", "blas", "hexagon"];
    let name = name.to_lowercase();
    NAMES.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// What can be done about metadata that cannot be replaced so.
fn override_hint(error: &OverrideError) -> Option<&'static str> {
    Some(match error {
        OverrideError::Type { .. } | OverrideError::Range { .. } | OverrideError::Array { .. } => {
            "`candor show --metadata` prints the keys with their values"
        }
        OverrideError::Windows { .. } => {
            "--override-kv ARCHITECTURE.rope.scaling.factor=float:N, or .rope.freq_base, changes the number for all layers"
        }
        OverrideError::LongFactors { .. } => {
            "--override-kv ARCHITECTURE.rope.scaling.original_context_length=int:N changes it"
        }
        _ => return None,
    })
}

/// What can be done about an adapter that is invalid, or another model's.
fn adapter_hint(error: &candor::adapter::Error) -> &'static str {
    use candor::adapter::Error;
    match error {
        Error::NoAdapter { .. } => "--lora takes a LoRA adapter; a model is the argument, or follows -m",
        Error::Architecture { .. } | Error::NoTarget { .. } | Error::Shape { .. } => {
            "an adapter fits the model that it was trained on; `candor show` says what it changes"
        }
        Error::Half { .. } | Error::Empty | Error::Gguf(_) | Error::Alpha { .. } => {
            "the file is incomplete: llama.cpp's convert_lora_to_gguf.py makes one anew"
        }
        _ => "leave the adapter out, or merge it into the model before the model is converted",
    }
}

/// What an error of usage says, without the help that follows it.
pub fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// A message on one line, whatever names from a file put into it.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.trim_end().chars() {
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_without_control_characters() {
        assert_eq!(one_line("a\nb\u{1b}[31mc\n"), "a b\\u{1b}[31mc");
    }
}
