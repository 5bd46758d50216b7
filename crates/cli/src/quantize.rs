//! `candor quantize`: a file whose weights take fewer bits, as llama-quantize makes it.

mod target;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    slice,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use candor_convert::{FileType, Importance, Mix, Options, Plan};
use candor_gguf::Value;
use clap::error::ErrorKind;

use crate::{
    args::{
        Line, QuantizeArgs, Rank,
        quantize::{COPY, named, types},
    },
    bar::Bar,
    errors::Error,
    interrupt::{EXIT_CODE, Interrupt},
    near::nearest,
    open,
    output::{Bytes, say},
    text,
    written::{refuse_input, stem},
};

/// What the words after the input say.
struct Wanted {
    output: Option<PathBuf>,
    /// `None` where tensors stay as they are.
    kind: Option<FileType>,
    threads: usize,
}

/// Runs the command.
pub fn quantize(args: &QuantizeArgs, line: &Line) -> Result<ExitCode, Error> {
    let wanted = wanted(args, line)?;
    if let Some(output) = &wanted.output {
        refuse_input(&args.input, output, args.keep_split)?;
    }
    let importance = importance(args)?;
    let limit = args.target.limit();
    // Where a target decides, the kind is chosen, too.
    let kind = wanted.kind.or(limit.map(|_| FileType::Q4KM));
    let mix = kind.map(|kind| mix(args, kind, importance.is_some())).transpose()?;
    let file = open::unmapped(&args.input)?;
    let overrides = args.metadata.overrides().metadata.into_iter().map(|one| (one.key, as_written(one.value)));
    let mut options = Options {
        mix,
        importance,
        importance_file: args.imatrix.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        requantize: args.allow_requantize || args.dry_run,
        prune: args.prune_layers.clone(),
        overrides: overrides.collect(),
    };
    if let Some(limit) = limit {
        let choice = target::choose(args, &options, limit, wanted.threads)?;
        options.mix = options.mix.map(|mix| target::mix(mix, &choice)).transpose()?;
    }
    let plan = Plan::new(&file, options)?;
    if args.dry_run {
        return if limit.is_some() { summary(&plan).map(|()| ExitCode::SUCCESS) } else { dry_run(&plan) };
    }
    let output = wanted.output.ok_or_else(|| no_output(line))?;
    let instead = plan.tensors().iter().filter(|tensor| tensor.choice.instead_of.is_some()).count();
    if instead > 0 {
        say!(
            "note: {instead} tensors have another format, since their rows are no whole blocks; --dry-run shows which"
        );
    }
    let interrupt = Interrupt::catch()?;
    let answering = interrupt.answering();
    let cancel = answering.cancel();
    let bar =
        Bar::new(args.waiting.progress, "quantizing {wide_bar} {bytes} of {total_bytes}, {eta} left", Instant::now());
    let bar = Arc::new(Mutex::new(bar));
    let shown = bar.clone();
    let done = Arc::new(move |done, total| {
        shown.lock().unwrap_or_else(PoisonError::into_inner).set(done, total);
        !cancel.is_cancelled()
    });
    let written = match args.keep_split && file.shards() > 1 {
        true => plan.write_shards(&stem(&output), wanted.threads, done).map(drop),
        false => plan.write_file(&output, wanted.threads, done),
    };
    drop(bar);
    match written {
        Err(candor_convert::Error::Cancelled) => return Ok(ExitCode::from(EXIT_CODE)),
        other => other?,
    }
    summary(&plan)?;
    Ok(ExitCode::SUCCESS)
}

/// The words after the input: as in llama-quantize, a type may come first, and then there is no output.
fn wanted(args: &QuantizeArgs, line: &Line) -> Result<Wanted, Error> {
    if args.target.limit().is_some() {
        return wanted_for_target(args, line);
    }
    let alone = ["file", "ctx_size", "chunks", "runs", "tensor_type_output"];
    if let Some(flag) = alone.into_iter().find(|id| line.rank(id) == Rank::Flag) {
        let message = format!("--{} is for --target-size and --target-bpw", flag.replace('_', "-"));
        return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
    }
    let (output, rest) = match &args.words[..] {
        [first, rest @ ..] if is_type(first) => (None, [slice::from_ref(first), rest].concat()),
        [first, rest @ ..] => (Some(PathBuf::from(first)), rest.to_vec()),
        [] => return Err(no_output(line)),
    };
    let (kind, threads) = match &rest[..] {
        [kind] => (kind, None),
        [kind, threads] => (kind, Some(threads)),
        [] if args.dry_run => return Err(unknown(&args.words[0])),
        [] => return Err(no_output(line)),
        _ => return Err(line.usage_error(ErrorKind::TooManyValues, "expected OUTPUT TYPE [THREADS]")),
    };
    let threads = threads_of(threads.map(String::as_str), line)?;
    let kind = match FileType::named(kind) {
        Some(kind) => Some(kind),
        None if is_copy(kind) => None,
        None => return Err(unknown(kind)),
    };
    if output.is_none() && !args.dry_run {
        return Err(no_output(line));
    }
    Ok(Wanted { output, kind, threads })
}

/// What the words after the input say where formats are chosen for a size.
fn wanted_for_target(args: &QuantizeArgs, line: &Line) -> Result<Wanted, Error> {
    if let Some(kind) = args
        .words
        .iter()
        .skip(1)
        .chain(args.words.iter().take(1))
        .find(|word| word.parse::<u64>().is_err() && is_type(word))
    {
        let message = format!("{kind} and a target: one of them chooses the formats");
        return Err(line.usage_error(ErrorKind::ArgumentConflict, message));
    }
    let (output, threads) = match &args.words[..] {
        [] => (None, None),
        [output] => (Some(output), None),
        [output, threads] => (Some(output), Some(threads.as_str())),
        _ => return Err(line.usage_error(ErrorKind::TooManyValues, "expected OUTPUT [THREADS]")),
    };
    if output.is_none() && !args.dry_run {
        return Err(line.usage_error(ErrorKind::MissingRequiredArgument, "expected the file to write"));
    }
    Ok(Wanted { output: output.map(PathBuf::from), kind: None, threads: threads_of(threads, line)? })
}

/// How many threads encode.
fn threads_of(word: Option<&str>, line: &Line) -> Result<usize, Error> {
    let Some(text) = word else { return Ok(thread::available_parallelism().map_or(1, usize::from)) };
    text.parse()
        .ok()
        .filter(|&threads| threads > 0)
        .ok_or_else(|| line.usage_error(ErrorKind::InvalidValue, format!("expected a number of threads, got {text}")))
}

fn is_copy(word: &str) -> bool {
    word.eq_ignore_ascii_case(COPY)
}

fn is_type(word: &str) -> bool {
    is_copy(word) || FileType::named(word).is_some()
}

fn unknown(typed: &str) -> Error {
    let bare = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let same = types().find(|name| bare(name) == bare(typed));
    Error::UnknownType { typed: typed.to_owned(), near: same.or_else(|| nearest(typed, types())) }
}

fn no_output(line: &Line) -> Error {
    line.usage_error(
        ErrorKind::MissingRequiredArgument,
        "expected the file to write and a type, such as model-q4.gguf Q4_K_M",
    )
}

fn importance(args: &QuantizeArgs) -> Result<Option<Importance>, Error> {
    let Some(path) = &args.imatrix else { return Ok(None) };
    let mut importance = Importance::open(path)?;
    importance.restrict(&args.include_weights, &args.exclude_weights);
    Ok(Some(importance))
}

fn mix(args: &QuantizeArgs, kind: FileType, importance: bool) -> Result<Mix, Error> {
    let mut pairs = args.tensor_type.clone();
    if let Some(path) = &args.tensor_type_file {
        for word in text::of_file(path)?.split_whitespace() {
            let pair =
                named(word).map_err(|problem| Error::Setting(format!("{}: {word}: {problem}", path.display())))?;
            pairs.push(pair);
        }
    }
    let mut mix = Mix::new(kind);
    for (pattern, format) in pairs {
        mix.name(&pattern, format)?;
    }
    mix.pure = args.pure;
    mix.head = args.output_tensor_type;
    mix.keep_head = args.leave_output_tensor;
    mix.embedding = args.token_embedding_type;
    mix.importance = importance;
    Ok(mix)
}

/// Whole numbers and fractions as llama-quantize writes them: in 32 bits.
fn as_written(value: Value) -> Value {
    match value {
        Value::I64(number) => u32::try_from(number).map_or(Value::I64(number), Value::U32),
        Value::F64(number) => Value::F32(number as f32),
        other => other,
    }
}

/// What each tensor would become.
fn dry_run(plan: &Plan) -> Result<ExitCode, Error> {
    let mut out = io::stdout().lock();
    let width = plan.tensors().iter().map(|tensor| tensor.name.len()).max().unwrap_or(0);
    for tensor in plan.tensors() {
        let (old, new) = (tensor.source.format, tensor.choice.format);
        let change = if old == new { old.name().to_owned() } else { format!("{} -> {}", old.name(), new.name()) };
        let instead =
            tensor.choice.instead_of.map(|format| format!(" (rows are no whole blocks of {})", format.name()));
        let size = Bytes(tensor.bytes).to_string();
        writeln!(out, "{:width$}  {change:16} {size:>9}{}", tensor.name, instead.unwrap_or_default())?;
    }
    drop(out);
    if let Some((name, format)) = plan.needs_importance() {
        say!("note: {name} as {} needs an importance matrix (--imatrix)", format.name());
    }
    summary(plan)?;
    Ok(ExitCode::SUCCESS)
}

/// Sizes before and after, as llama-quantize counts them: of tensors alone.
fn summary(plan: &Plan) -> Result<(), Error> {
    let elements: u64 = plan.tensors().iter().map(|tensor| tensor.source.elements()).sum();
    let bits = |bytes: u64| 8.0 * bytes as f64 / elements.max(1) as f64;
    let before: u64 = plan.tensors().iter().map(|tensor| tensor.source.bytes).sum();
    let after: u64 = plan.tensors().iter().map(|tensor| tensor.bytes).sum();
    let mut out = io::stdout().lock();
    for (what, bytes) in [("model size", before), ("quant size", after)] {
        writeln!(out, "{what}: {} ({:.2} bits per weight)", Bytes(bytes), bits(bytes))?;
    }
    out.flush()?;
    Ok(())
}
