use super::*;

fn with_env(line: &str, env: &[(&str, &str)]) -> Result<Args, ArgsError> {
    let lookup = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    parse(line.split_whitespace().map(str::to_owned), lookup)
}

fn args(line: &str) -> Args {
    with_env(line, &[]).unwrap()
}

fn error(line: &str) -> String {
    with_env(line, &[]).unwrap_err().to_string()
}

#[test]
fn zero_threads_are_refused_with_a_sentence() {
    let sentence = "`0` is not a value for --test-threads: tests need a whole number of threads, 1 or more";
    assert_eq!(error("--test-threads 0"), sentence);
    assert_eq!(error("--test-threads=0"), sentence);
    assert!(error("--test-threads many").starts_with("`many`"));
    assert_eq!(error("--test-threads"), "option `--test-threads` needs a value");
    assert!(with_env("", &[("RUST_TEST_THREADS", "0")]).unwrap_err().to_string().contains("RUST_TEST_THREADS"));
}

#[test]
fn every_flag_of_libtest_is_taken() {
    let line = "--include-ignored --force-run-in-process --exclude-should-panic --test --list --logfile x --nocapture \
        --no-capture --test-threads 3 --skip a --skip=b --quiet --exact --color never --format json --show-output \
        -Z unstable-options -Zunstable-options --report-time --report-time=colored --ensure-time --shuffle \
        --shuffle-seed 7 -q one two";
    let args = args(line);
    assert_eq!(
        (args.filters.as_slice(), args.skip.as_slice()),
        (["one", "two"].map(String::from).as_slice(), ["a", "b"].map(String::from).as_slice())
    );
    assert_eq!((args.test_threads.map(NonZeroUsize::get), args.order), (Some(3), Order::Seeded(7)));
    assert_eq!((args.logfile.as_deref(), args.color, args.format), (Some("x"), Color::Never, Format::Terse));
    assert!(args.exact && args.list && args.test && args.no_capture && args.ignored == Ignored::Include);
}

#[test]
fn any_filter_selects() {
    let args = args("shuffle region --skip slow");
    assert!(args.selects("batch::region::one", false));
    assert!(args.selects("shuffle", false));
    assert!(!args.selects("stream::one", false));
    assert!(!args.selects("batch::region::slow", false));
    assert!(args.selects("batch::region::one", true), "reported as ignored");
}

#[test]
fn nextest_is_understood() {
    let list = args("--list --format terse");
    assert!(list.list && list.format == Format::Terse && list.selects("a", false));
    assert!(list.selects("a", true), "the first list has the ignored ones too, as libtest's has");
    let ignored = args("--list --format terse --ignored");
    assert!(!ignored.selects("a", false) && ignored.selects("a", true));
    let run = args("batch::one --nocapture --exact");
    assert!(run.selects("batch::one", false) && !run.selects("batch::one::more", false));
    let run = args("batch::one --nocapture --exact --ignored");
    assert!(run.selects("batch::one", true));
    assert!(args("batch::one --nocapture --exact --bench").bench);
}

#[test]
fn the_environment_is_read_and_options_win() {
    let env = [("RUST_TEST_THREADS", "4"), ("RUST_TEST_NOCAPTURE", "1"), ("RUST_TEST_SHUFFLE", "1")];
    let args = with_env("", &env).unwrap();
    assert_eq!((args.test_threads.map(NonZeroUsize::get), args.order), (Some(4), Order::Shuffled));
    assert!(args.no_capture);
    let args = with_env("--test-threads=2 --shuffle-seed=9", &env).unwrap();
    assert_eq!((args.test_threads.map(NonZeroUsize::get), args.order), (Some(2), Order::Seeded(9)));
    let args = with_env("", &[("RUST_TEST_SHUFFLE", "0"), ("RUST_TEST_NOCAPTURE", "0")]).unwrap();
    assert_eq!((args.order, args.no_capture), (Order::Listed, false));
    assert_eq!(with_env("", &[("RUST_TEST_SHUFFLE_SEED", "5")]).unwrap().order, Order::Seeded(5));
}

#[test]
fn mistakes_are_told() {
    assert_eq!(error("--fliter x"), "there is no option `--fliter`; --help lists them");
    assert_eq!(error("--exact=yes"), "option `--exact` takes no value");
    assert_eq!(error("--test --bench"), "--test and --bench exclude each other");
    assert_eq!(error("--ignored --include-ignored"), "--ignored and --include-ignored exclude each other");
    assert_eq!(error("--include-ignored --ignored"), "--ignored and --include-ignored exclude each other");
    assert!(error("--format junit").contains("--junit FILE"));
    assert!(error("--color blue").ends_with("it is auto, always or never"));
    assert!(error("--shuffle-seed x").ends_with("a seed is a whole number"));
}

#[test]
fn after_two_dashes_all_are_filters() {
    assert_eq!(args("--exact -- --odd-name").filters, ["--odd-name"]);
    assert!(args("-h").help && HELP.contains("--test-threads"));
}

#[test]
fn mimic_gets_what_it_can_use() {
    let mimic = args("one two --ignored --test-threads 2 --format terse --color always --skip x").to_mimic();
    assert!(mimic.ignored && mimic.filter.is_none() && mimic.skip.is_empty());
    assert_eq!(mimic.test_threads, Some(2));
    assert!(matches!((mimic.format, mimic.color), (Some(FormatSetting::Terse), Some(ColorSetting::Always))));
}
