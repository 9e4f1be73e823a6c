//! What `stormproof inject` is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use stormproof::chaos::journal::DEFAULT_TTL;
use stormproof::chaos::toxiproxy::Stream;
use stormproof::chaos::toxiproxy::toxic::attributes::{Attributes, TYPES};
use stormproof::duration::parse_ms;

/// Arguments of `stormproof inject`.
#[derive(Debug, Args)]
pub(crate) struct InjectArguments {
    #[command(subcommand)]
    pub(super) fault: FaultArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum FaultArguments {
    /// Add a toxic to a proxy of a server with Toxiproxy's API
    Toxic(ToxicArguments),
    /// Let nothing pass through a proxy, in either direction
    Blackhole(ProxyFaultArguments),
    /// Disable a proxy: it refuses connections and cuts open ones
    #[command(visible_alias = "down")]
    Refuse(ProxyFaultArguments),
    /// Stop a process (SIGSTOP), and continue it afterwards
    Hang(ProcessFaultArguments),
    /// Let a process have only a share of its time (SIGSTOP and SIGCONT in turn)
    Slow(SlowArguments),
    /// Kill a process (SIGKILL); cannot be undone
    Kill(KillArguments),
}

#[derive(Debug, Args)]
#[command(after_help = types())]
pub(super) struct ToxicArguments {
    #[command(flatten)]
    pub(super) place: PlaceArguments,
    /// Type of the toxic, see below
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: String,
    /// Attribute of the toxic, e.g. latency=500
    #[arg(long = "attribute", short = 'a', value_name = "NAME=VALUE")]
    pub(super) attributes: Vec<String>,
    /// Direction that it acts on: upstream or downstream
    #[arg(long, default_value = "downstream")]
    pub(super) stream: Stream,
    /// Share of connections that it acts on, 0 to 1
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(super) toxicity: f32,
    #[command(flatten)]
    held: HeldArguments,
}

#[derive(Debug, Args)]
pub(super) struct ProxyFaultArguments {
    #[command(flatten)]
    pub(super) place: PlaceArguments,
    #[command(flatten)]
    held: HeldArguments,
}

#[derive(Debug, Args)]
pub(super) struct ProcessFaultArguments {
    /// The process, one of your own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) pid: u32,
    #[command(flatten)]
    held: HeldArguments,
}

/// Of every fault that can be taken back.
#[derive(Debug, Args)]
pub(super) struct HeldArguments {
    #[command(flatten)]
    hold: HoldArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Args)]
pub(super) struct SlowArguments {
    #[command(flatten)]
    pub(super) process: ProcessFaultArguments,
    /// Share of its time that it keeps, 1 to 99
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(super) percent: u8,
}

#[derive(Debug, Args)]
pub(super) struct KillArguments {
    /// The process, one of your own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) pid: u32,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

/// Which proxy.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// Base URL of the proxy server's API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8474")]
    pub(super) proxy_api: String,
    /// Name of the proxy
    #[arg(long, value_name = "NAME")]
    pub(super) proxy: String,
    /// A host other than this machine that may be hurt; STORMPROOF_ALLOW_REMOTE=1 must be set as well
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(super) allowed_hosts: Vec<String>,
}

/// For how long.
#[derive(Debug, Args)]
pub(super) struct HoldArguments {
    /// How long the fault is held, e.g. 30s or 2min
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(super) hold_for: Duration,
    /// Refuse to hold a fault for longer than this
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = duration)]
    pub(super) max: Duration,
    /// Seconds after which the fault ends by itself if this process no longer renews it [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct OutputArguments {
    /// Where the fault journal goes, to be kept, with the record and the guardian's log beside it [default: a folder of
    /// its own in your state folder, until nothing is left]
    #[arg(long, value_name = "FILE")]
    pub(super) journal: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print what would be touched, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl HoldArguments {
    pub(super) fn lease_ttl(&self) -> Duration {
        self.lease.map_or(DEFAULT_TTL, Duration::from_secs)
    }
}

impl FaultArguments {
    pub(super) fn output(&self) -> &OutputArguments {
        self.common().1
    }

    /// None for what cannot be held.
    pub(super) fn hold(&self) -> Option<&HoldArguments> {
        self.common().0
    }

    fn common(&self) -> (Option<&HoldArguments>, &OutputArguments) {
        let held = match self {
            Self::Toxic(arguments) => &arguments.held,
            Self::Blackhole(arguments) | Self::Refuse(arguments) => &arguments.held,
            Self::Hang(arguments) => &arguments.held,
            Self::Slow(arguments) => &arguments.process.held,
            Self::Kill(arguments) => return (None, &arguments.output),
        };
        (Some(&held.hold), &held.output)
    }
}

/// Each type of toxic and its attributes, those that it needs in front of the others.
fn types() -> String {
    let types = TYPES.into_iter().filter_map(|kind| Some((kind, Attributes::of_type(kind)?)));
    let lines = types.map(|(kind, mut attributes)| {
        let main = attributes.main_field();
        let shown = |name: &str| if Some(name) == main { name.to_owned() } else { format!("[{name}]") };
        let names: Vec<String> = attributes.fields().into_iter().map(|(name, _)| shown(name)).collect();
        format!("  {kind:18}{}", names.join(" ")).trim_end().to_owned()
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "Types and their attributes, whole numbers ([] need not be given):\n{}\n\
         Times are milliseconds (delay of slicer: microseconds), rate is KB/s, sizes are bytes.\n\
         Each also has [clients]: an address or a network, e.g. 10.1.0.0/16; other clients are left alone.",
        lines.join("\n")
    )
}

/// As Flink writes durations, but a bare number is refused: it would be milliseconds.
fn duration(text: &str) -> Result<Duration, String> {
    let has_unit = !text.trim().ends_with(|last: char| last.is_ascii_digit());
    let ms = parse_ms(text).filter(|ms| has_unit && *ms > 0);
    ms.map(Duration::from_millis).ok_or_else(|| "write a number and its unit, e.g. 500ms, 30s or 2min".to_owned())
}

fn share(text: &str) -> Result<f32, String> {
    let number = text.parse::<f32>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "it must be within 0 and 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("2 min"), Ok(Duration::from_secs(120)));
        for bad in ["30", "", "s", "0s", "-1s", "1 week"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_share_is_within_0_and_1() {
        assert_eq!(share("0.5"), Ok(0.5));
        for bad in ["1.1", "-0.1", "NaN", "half"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
