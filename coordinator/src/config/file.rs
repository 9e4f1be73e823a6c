//! Reads configuration files: TOML with flat or nested keys, or a Flink `config.yaml`.

use std::path::Path;

use super::settings::{ConfigError, Settings};
use super::yaml;

/// Reads `path`: `.yaml` and `.yml` (and Flink's old `.conf`) as Flink configuration, everything else as TOML.
///
/// # Errors
/// An unreadable file, wrong syntax (with the line), an unknown key, a wrong value.
pub fn read(path: &Path) -> Result<Settings, ConfigError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::File { file: file.clone(), reason: error.to_string() })?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml" | "conf") => from_yaml(&file, &text),
        _ => from_toml(&file, &text),
    }
}

/// Reads TOML; `file` is named in errors.
///
/// # Errors
/// As [`read`].
pub fn from_toml(file: &str, text: &str) -> Result<Settings, ConfigError> {
    let table: toml::Table = toml::from_str(text).map_err(|error| ConfigError::Syntax {
        file: file.to_owned(),
        line: error.span().map(|span| text[..span.start].matches('\n').count() + 1),
        reason: error.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    flatten(file, "", &table, &mut entries)?;
    collect(file, entries.into_iter().map(|(key, value)| (None, key, value)))
}

/// Reads a Flink `config.yaml`; `file` is named in errors.
///
/// # Errors
/// As [`read`].
pub fn from_yaml(file: &str, text: &str) -> Result<Settings, ConfigError> {
    let entries = yaml::flatten(text).map_err(|(line, reason)| ConfigError::Syntax {
        file: file.to_owned(),
        line: Some(line),
        reason,
    })?;
    collect(file, entries.into_iter().map(|(line, key, value)| (Some(line), key, value)))
}

fn collect(
    file: &str,
    entries: impl Iterator<Item = (Option<usize>, String, String)>,
) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    for (line, key, value) in entries {
        settings.set_new(&key, &value).map_err(|error| ConfigError::Syntax {
            file: file.to_owned(),
            line,
            reason: error.to_string(),
        })?;
    }
    Ok(settings)
}

fn flatten(
    file: &str,
    prefix: &str,
    table: &toml::Table,
    entries: &mut Vec<(String, String)>,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let text = match value {
            toml::Value::Table(inner) => {
                flatten(file, &key, inner, entries)?;
                continue;
            }
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Array(_) | toml::Value::Datetime(_) => {
                let reason =
                    format!("`{key}` is of type {}; expected a text, a number or true/false", value.type_str());
                return Err(ConfigError::Syntax { file: file.to_owned(), line: None, reason });
            }
        };
        entries.push((key, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    #[test]
    fn flat_and_nested_toml_mean_the_same() {
        let flat = "\"heartbeat.timeout\" = \"5 s\"\nrestart-strategy.type = \"fixed-delay\"\n\"restart-strategy.fixed-delay.attempts\" = 3\n";
        let nested = "[heartbeat]\ntimeout = \"5 s\"\n[restart-strategy]\ntype = \"fixed-delay\"\n[restart-strategy.fixed-delay]\nattempts = 3\n";
        let settings = from_toml("a.toml", flat).unwrap();
        assert_eq!(settings, from_toml("b.toml", nested).unwrap());
        assert_eq!(settings.count(&options::FIXED_DELAY_ATTEMPTS), Some(3));
    }

    #[test]
    fn a_flink_config_yaml_is_read() {
        let text = "jobmanager:\n  bind-host: localhost\n  execution:\n    failover-strategy: full\n  memory:\n    process:\n      size: 1600m\nenv:\n  java:\n    opts:\n      all: --add-exports=java.base/sun.net.util=ALL-UNNAMED\nheartbeat.interval: 500\n";
        let settings = from_yaml("config.yaml", text).unwrap();
        assert_eq!(settings.word(&options::FAILOVER_STRATEGY), Some("full"));
        assert_eq!(settings.millis(&options::HEARTBEAT_INTERVAL), Some(500));
        assert_eq!(settings.to_map().len(), 2);
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = from_toml("c.toml", "a = 1\nb = = 2\n").unwrap_err().to_string();
        assert!(error.starts_with("c.toml, line 2: "), "{error}");
        let error = from_yaml("c.yaml", "heartbeat:\n  intervall: 1 s\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "c.yaml, line 2: unknown configuration key `heartbeat.intervall`; did you mean `heartbeat.interval`?"
        );
        let error = from_toml("c.toml", "heartbeat.interval = [1]\n").unwrap_err().to_string();
        assert!(error.contains("is of type array"), "{error}");
        let error = read(Path::new("no/such/file.toml")).unwrap_err().to_string();
        assert!(error.contains("no/such/file.toml"), "{error}");
    }

    #[test]
    fn the_ending_decides_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let (yaml, toml) = (folder.path().join("config.yaml"), folder.path().join("stormproof.toml"));
        std::fs::write(&yaml, "heartbeat.timeout: 3 s\n").unwrap();
        std::fs::write(&toml, "heartbeat.timeout = \"3 s\"\n").unwrap();
        assert_eq!(read(&yaml).unwrap(), read(&toml).unwrap());
    }
}
