//! Reads the sources and lays them over each other.

use std::path::{Path, PathBuf};

use config::{Config as Layers, Environment, File, FileFormat};

use super::checks;
use super::sections::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::retention::Schedule;

const DEFAULTS: &str = include_str!("default.toml");
const PREFIX: &str = "RAGBUS";
const LISTS: [&str; 5] = [
    "models.previous",
    "nats.reply_prefixes",
    "worker.roles",
    "retrieval.legs",
    "retrieval.languages",
];

/// What flags set, strongest of all; `(key, value)`.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--config FILE`.
    pub file: Option<PathBuf>,
    /// Keys with their values, as in the environment.
    pub keys: Vec<(&'static str, String)>,
}

/// Loads and checks the configuration.
///
/// # Errors
/// `InvalidField` naming the key, with what to do.
pub fn load(overrides: &Overrides) -> Result<Config> {
    let config = layered(overrides, Environment::with_prefix(PREFIX))?;
    checks::check(&config)?;
    Schedule::parse(&config.retention.schedule)?;
    Ok(config)
}

fn layered(overrides: &Overrides, environment: Environment) -> Result<Config> {
    let mut layers = Layers::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
    if let Some(file) = &overrides.file {
        layers = layers.add_source(File::from(readable(file)?).format(FileFormat::Toml));
    }
    let mut environment = environment
        .prefix_separator("__")
        .separator("__")
        .try_parsing(true)
        .list_separator(",");
    for key in LISTS {
        environment = environment.with_list_parse_key(key);
    }
    layers = layers.add_source(environment);
    for (key, value) in &overrides.keys {
        layers = match LISTS.contains(key) {
            true => layers.set_override(
                *key,
                value.split(',').map(str::to_owned).collect::<Vec<_>>(),
            ),
            false => layers.set_override(*key, value.as_str()),
        }
        .map_err(invalid)?;
    }
    layers
        .build()
        .and_then(Layers::try_deserialize)
        .map_err(invalid)
}

fn readable(file: &Path) -> Result<&Path> {
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_file() => Ok(file),
        Ok(_) => Err(Error::invalid_field(
            "--config",
            "names something that is no file",
        )),
        Err(e) => Err(Error::invalid_field(
            "--config",
            format!("{} can't be read", file.display()),
        )
        .caused_by(e)),
    }
}

fn invalid(error: config::ConfigError) -> Error {
    Error::new(ErrorKind::InvalidField, format!("configuration: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LegName, RoleName};
    use std::collections::HashMap;

    fn with(pairs: &[(&str, &str)]) -> Result<Config> {
        let map: HashMap<String, String> = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        layered(
            &Overrides::default(),
            Environment::with_prefix(PREFIX).source(Some(map)),
        )
    }

    #[test]
    fn the_defaults_stand_alone_and_are_valid() {
        let config = with(&[]).expect("defaults");
        checks::check(&config).expect("valid");
        assert_eq!(config.retrieval.depth, 100);
    }

    #[test]
    fn the_environment_wins_and_lists_are_split() {
        let config = with(&[
            ("RAGBUS__RETRIEVAL__LEGS", "dense"),
            ("RAGBUS__WORKER__ROLES", "ingest,retrieve"),
            ("RAGBUS__NATS__REPLY_PREFIXES", "_INBOX.{tenant}.,_R_."),
            ("RAGBUS__STORE__QDRANT__API_KEY", "12345"),
            ("RAGBUS__DATA_DIR", "/tmp/x"),
        ])
        .expect("valid");
        assert_eq!(config.retrieval.legs, [LegName::Dense]);
        assert_eq!(config.worker.roles, [RoleName::Ingest, RoleName::Retrieve]);
        assert_eq!(config.nats.reply_prefixes.len(), 2);
        assert_eq!(config.store.qdrant.api_key.expose(), "12345");
        assert!(!format!("{config:?}").contains("12345"));
    }

    #[test]
    fn unknown_keys_and_wrong_values_are_errors() {
        for bad in [
            ("RAGBUS__RETRIEVAL__DEPHT", "5"),
            ("RAGBUS__NOPE", "5"),
            ("RAGBUS__RETRIEVAL__DEPTH", "many"),
            ("RAGBUS__STORE__KIND", "redis"),
        ] {
            assert!(with(&[bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tracking_needs_what_its_keys_promise() {
        let off = ("RAGBUS__TRACKING__ENABLED", "false");
        let required = ("RAGBUS__TRACKING__GUARANTEE", "required");
        let hashed = ("RAGBUS__TRACKING__HASH_QUERIES", "true");
        let key = ("RAGBUS__TRACKING__HASH_KEY", "secret");
        let none = ("RAGBUS__TRACKING__BUFFER", "0");
        let checked = |keys: &[(&str, &str)]| {
            let config = with(keys).expect("known keys");
            let checked = checks::check(&config);
            checked.map_err(|e| e.field().unwrap_or_default().to_owned())
        };
        assert_eq!(checked(&[required]), Ok(()));
        assert_eq!(checked(&[hashed, key]), Ok(()));
        assert_eq!(checked(&[off, required]), Err("tracking.guarantee".into()));
        assert_eq!(checked(&[hashed]), Err("tracking.hash_key".into()));
        assert_eq!(checked(&[none]), Err("tracking.buffer".into()));
    }

    #[test]
    fn limits_are_read_by_tenant_and_their_ranges_held() {
        let config = with(&[
            ("RAGBUS__LIMITS__DEFAULT__IN_FLIGHT", "4"),
            ("RAGBUS__LIMITS__DEFAULT__REQUESTS_PER_SECOND", "2"),
            ("RAGBUS__LIMITS__TENANTS__ACME__DOCUMENTS", "0"),
            ("RAGBUS__LIMITS__TENANTS__ACME__EXPANSION", "false"),
        ])
        .expect("known keys");
        checks::check(&config).expect("valid");
        assert_eq!(config.limits.default.requests_per_second, Some(2.0));
        let acme = &config.limits.tenants["acme"];
        assert_eq!((acme.documents, acme.expansion), (Some(0), Some(false)));
        assert_eq!(acme.in_flight, None);
        for (key, value, field) in [
            ("DEFAULT__IN_FLIGHT", "0", "limits.default.in_flight"),
            (
                "DEFAULT__REQUESTS_PER_SECOND",
                "0",
                "limits.default.requests_per_second",
            ),
            (
                "TENANTS__ACME__REQUESTS_PER_SECOND",
                "-1",
                "limits.tenants.acme.requests_per_second",
            ),
            (
                "TENANTS__ACME__DOCUMENTS",
                "9007199254740993",
                "limits.tenants.acme.documents",
            ),
            ("TENANTS__A.B__DOCUMENTS", "1", ""),
            ("TENANTS__-A__DOCUMENTS", "1", "limits.tenants"),
        ] {
            let key = format!("RAGBUS__LIMITS__{key}");
            let checked = with(&[(&key, value)]).and_then(|config| checks::check(&config));
            let error = checked.expect_err(&key);
            assert_eq!(error.field().unwrap_or_default(), field, "{key}");
        }
        assert!(with(&[("RAGBUS__LIMITS__DEFAULT__IN_FLIHGT", "4")]).is_err());
        assert!(with(&[("RAGBUS__LIMITS__DEFAULT__IN_FLIGHT", "-4")]).is_err());
    }

    #[test]
    fn a_stage_without_its_part_and_words_of_several_tenants_are_errors() {
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[("RAGBUS__STORE__KIND", "qdrant")], "store.kind"),
            (&[("RAGBUS__CORRECTIVE__MODE", "grade")], "corrective.mode"),
            (
                &[("RAGBUS__RERANKING__ENABLED", "true")],
                "reranking.enabled",
            ),
            (
                &[("RAGBUS__EXPANSION__STRATEGY", "hyde")],
                "expansion.strategy",
            ),
            (
                &[("RAGBUS__LLM__BASE_URL", "http://127.0.0.1/v1")],
                "llm.model",
            ),
            (
                &[
                    ("RAGBUS__RETRIEVAL__LEGS", "dense,bm25"),
                    ("RAGBUS__TENANCY__STRATEGY", "shared"),
                ],
                "retrieval.legs",
            ),
        ];
        for (keys, field) in cases {
            let config = with(keys).expect("known keys");
            let error = checks::check(&config).expect_err(field);
            assert_eq!(error.field(), Some(field));
        }
        for good in [
            ("RAGBUS__EXPANSION__STRATEGY", "template"),
            ("RAGBUS__RETRIEVAL__LEGS", "dense,sparse,bm25"),
        ] {
            assert!(checks::check(&with(&[good]).expect("known keys")).is_ok());
        }
    }
}
