//! The command line of a test binary: all flags of libtest, on top of `libtest-mimic`.
//!
//! `libtest-mimic` hangs on `--test-threads 0`, refuses `--no-capture` and `--shuffle`, takes one filter only and
//! reads no environment. Here every flag of libtest is taken, and cargo-nextest's contract is kept: it calls
//! `BIN --list --format terse [--ignored]` and `BIN NAME --nocapture --exact [--ignored|--bench]`.
//!
//! [`parse`] is pure: it neither reads the environment nor ends the process.

use std::num::NonZeroUsize;

use libtest_mimic::{Arguments, ColorSetting, FormatSetting};

/// What is printed for `--help`.
pub const HELP: &str = "\
Usage: [OPTIONS] [FILTER...]

A test is run if its name contains any FILTER (all tests if there is none).

  --exact                  a FILTER must be the whole name
  --skip FILTER            leave out tests that contain FILTER; may be repeated
  --ignored                run ignored tests only
  --include-ignored        run ignored tests too
  --list                   list tests instead of running them
  --format FORMAT          pretty, terse or json
  -q, --quiet              the same as --format terse
  --test-threads N         tests at once, at least 1 (else RUST_TEST_THREADS)
  --shuffle                run in a random order
  --shuffle-seed SEED      run in the order of this seed
  --color WHEN             auto, always or never
  --logfile PATH           write results to PATH
  --bench, --test          benchmarks only, tests only
  -h, --help               print this
Taken and without effect: --no-capture, --nocapture, --show-output, --exclude-should-panic,
--force-run-in-process, --report-time, --ensure-time, -Z unstable-options
";

/// Which tests to run as regards their ignored mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ignored {
    /// Those without it.
    #[default]
    No,
    /// Those with it.
    Only,
    /// All.
    Include,
}

/// Format of the results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// A line a test.
    #[default]
    Pretty,
    /// A character a test.
    Terse,
    /// libtest's JSON.
    Json,
}

/// When to colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Order of the tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// As listed.
    #[default]
    Listed,
    /// Shuffled by a seed that the caller draws and prints.
    Shuffled,
    /// Shuffled by this seed.
    Seeded(u64),
}

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Args {
    /// Any of these, all tests if empty.
    pub filters: Vec<String>,
    /// None of these.
    pub skip: Vec<String>,
    /// Filters and skips are whole names.
    pub exact: bool,
    /// Ignored tests.
    pub ignored: Ignored,
    /// List instead of run.
    pub list: bool,
    /// Format of results.
    pub format: Format,
    /// When to colour.
    pub color: Color,
    /// Tests at once, if given.
    pub test_threads: Option<NonZeroUsize>,
    /// Order of tests.
    pub order: Order,
    /// Where to write results instead of stdout.
    pub logfile: Option<String>,
    /// Output of tests is not captured.
    pub no_capture: bool,
    /// Benchmarks only.
    pub bench: bool,
    /// Tests only.
    pub test: bool,
    /// Print [`HELP`] and do nothing else.
    pub help: bool,
}

/// The command line makes no sense. Exit code [`crate::verdict::EXIT_USAGE`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// No such option.
    #[error("there is no option `{0}`; --help lists them")]
    Unknown(String),
    /// An option without its value.
    #[error("option `{0}` needs a value")]
    NoValue(String),
    /// A value for an option that takes none.
    #[error("option `{0}` takes no value")]
    SurplusValue(String),
    /// A value that makes no sense.
    #[error("`{value}` is not a value for {option}: {expected}")]
    Value {
        /// The option or variable.
        option: String,
        /// What was given.
        value: String,
        /// What can be.
        expected: &'static str,
    },
    /// Options that exclude each other.
    #[error("{0} and {1} exclude each other")]
    Conflict(&'static str, &'static str),
}

/// Parses the arguments after the program's name. `env` looks up an environment variable; `RUST_TEST_THREADS`,
/// `RUST_TEST_NOCAPTURE`, `RUST_TEST_SHUFFLE` and `RUST_TEST_SHUFFLE_SEED` are read, and options win over them.
///
/// # Errors
/// See [`ArgsError`].
pub fn parse(args: impl IntoIterator<Item = String>, env: impl Fn(&str) -> Option<String>) -> Result<Args, ArgsError> {
    let mut parser = Parser { args: Args::default(), rest: args.into_iter() };
    let mut only_filters = false;
    let (mut test_only, mut shuffle) = (false, false);
    while let Some(arg) = parser.rest.next() {
        if only_filters || !arg.starts_with('-') || arg == "-" {
            parser.args.filters.push(arg);
            continue;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (arg, None),
        };
        match name.as_str() {
            "--" => only_filters = true,
            "--shuffle" => shuffle = true,
            "--test" => test_only = true,
            _ => parser.option(&name, value)?,
        }
    }
    let mut args = parser.args;
    args.test = test_only;
    if args.test && args.bench {
        return Err(ArgsError::Conflict("--test", "--bench"));
    }
    if shuffle && args.order == Order::Listed {
        args.order = Order::Shuffled;
    }
    from_environment(&mut args, env)?;
    Ok(args)
}

fn from_environment(args: &mut Args, env: impl Fn(&str) -> Option<String>) -> Result<(), ArgsError> {
    let is_on = |name: &str| env(name).is_some_and(|value| value != "0");
    if args.test_threads.is_none() {
        args.test_threads = env("RUST_TEST_THREADS").map(|value| threads("RUST_TEST_THREADS", &value)).transpose()?;
    }
    args.no_capture |= is_on("RUST_TEST_NOCAPTURE");
    if args.order == Order::Listed {
        if let Some(value) = env("RUST_TEST_SHUFFLE_SEED") {
            args.order = Order::Seeded(seed("RUST_TEST_SHUFFLE_SEED", &value)?);
        } else if is_on("RUST_TEST_SHUFFLE") {
            args.order = Order::Shuffled;
        }
    }
    Ok(())
}

struct Parser<I> {
    args: Args,
    rest: I,
}

impl<I: Iterator<Item = String>> Parser<I> {
    fn option(&mut self, name: &str, value: Option<String>) -> Result<(), ArgsError> {
        match name {
            "--skip" => {
                let filter = self.value(name, value)?;
                self.args.skip.push(filter);
            }
            "--test-threads" => self.args.test_threads = Some(threads(name, &self.value(name, value)?)?),
            "--shuffle-seed" => self.args.order = Order::Seeded(seed(name, &self.value(name, value)?)?),
            "--logfile" => self.args.logfile = Some(self.value(name, value)?),
            "--color" => self.args.color = color(name, &self.value(name, value)?)?,
            "--format" => self.args.format = format(name, &self.value(name, value)?)?,
            "-Z" => drop(self.value(name, value)?),
            // Since 2021 an optional value; it never takes the next argument.
            "--report-time" => {}
            _ if value.is_some() => return Err(ArgsError::SurplusValue(name.to_owned())),
            _ => self.flag(name)?,
        }
        Ok(())
    }

    fn flag(&mut self, name: &str) -> Result<(), ArgsError> {
        let args = &mut self.args;
        match name {
            "--exact" => args.exact = true,
            "--list" => args.list = true,
            "--bench" => args.bench = true,
            "--ignored" if args.ignored == Ignored::Include => {
                return Err(ArgsError::Conflict("--ignored", "--include-ignored"));
            }
            "--include-ignored" if args.ignored == Ignored::Only => {
                return Err(ArgsError::Conflict("--ignored", "--include-ignored"));
            }
            "--ignored" => args.ignored = Ignored::Only,
            "--include-ignored" => args.ignored = Ignored::Include,
            "-q" | "--quiet" => args.format = Format::Terse,
            "--nocapture" | "--no-capture" => args.no_capture = true,
            "-h" | "--help" => args.help = true,
            "--show-output" | "--ensure-time" | "--exclude-should-panic" | "--force-run-in-process" => {}
            _ if name.starts_with("-Z") => {}
            _ => return Err(ArgsError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    fn value(&mut self, name: &str, value: Option<String>) -> Result<String, ArgsError> {
        value.or_else(|| self.rest.next()).ok_or_else(|| ArgsError::NoValue(name.to_owned()))
    }
}

fn bad(option: &str, value: &str, expected: &'static str) -> ArgsError {
    ArgsError::Value { option: option.to_owned(), value: value.to_owned(), expected }
}

fn threads(option: &str, value: &str) -> Result<NonZeroUsize, ArgsError> {
    value.parse().map_err(|_| bad(option, value, "tests need a whole number of threads, 1 or more"))
}

fn seed(option: &str, value: &str) -> Result<u64, ArgsError> {
    value.parse().map_err(|_| bad(option, value, "a seed is a whole number"))
}

fn color(option: &str, value: &str) -> Result<Color, ArgsError> {
    match value {
        "auto" => Ok(Color::Auto),
        "always" => Ok(Color::Always),
        "never" => Ok(Color::Never),
        _ => Err(bad(option, value, "it is auto, always or never")),
    }
}

fn format(option: &str, value: &str) -> Result<Format, ArgsError> {
    match value {
        "pretty" => Ok(Format::Pretty),
        "terse" => Ok(Format::Terse),
        "json" => Ok(Format::Json),
        // Writing something else under this name would break whoever reads it.
        "junit" => Err(bad(option, value, "use `stormproof run --junit FILE`, or nextest's own JUnit report")),
        _ => Err(bad(option, value, "it is pretty, terse or json")),
    }
}

impl Args {
    /// Is this test to be listed, or handed to the runner? The runner reports ignored tests as such unless it is told to
    /// run them, as libtest does.
    #[must_use]
    pub fn selects(&self, name: &str, is_ignored: bool) -> bool {
        let fits = |filter: &String| if self.exact { name == filter } else { name.contains(filter.as_str()) };
        let by_mark = match self.ignored {
            Ignored::Only => is_ignored,
            Ignored::No | Ignored::Include => true,
        };
        by_mark && (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skip.iter().any(fits)
    }

    /// The arguments for `libtest-mimic`. Filters are left out: hand it only the tests that [`Args::selects`] takes,
    /// in the order that [`Args::order`] asks for.
    #[must_use]
    pub fn to_mimic(&self) -> Arguments {
        Arguments {
            include_ignored: self.ignored == Ignored::Include,
            ignored: self.ignored == Ignored::Only,
            test: self.test,
            bench: self.bench,
            list: self.list,
            nocapture: self.no_capture,
            test_threads: self.test_threads.map(NonZeroUsize::get),
            logfile: self.logfile.clone(),
            color: Some(match self.color {
                Color::Auto => ColorSetting::Auto,
                Color::Always => ColorSetting::Always,
                Color::Never => ColorSetting::Never,
            }),
            format: Some(match self.format {
                Format::Pretty => FormatSetting::Pretty,
                Format::Terse => FormatSetting::Terse,
                Format::Json => FormatSetting::Json,
            }),
            ..Arguments::default()
        }
    }
}

#[cfg(test)]
mod tests;
