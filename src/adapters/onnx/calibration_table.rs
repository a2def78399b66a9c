//! The `[calibration]` table of a cross-encoder's `model.toml`.
//!
//! ```toml
//! [calibration]                           # the model's own; without it, conservative guesses hold
//! id = "docs-2026-11"
//! scale = 0.8
//! shift = -1.2
//! correct = 0.7
//! incorrect = 0.2
//! method = "Platt"                        # this and further keys are for the reader
//!
//! [calibration.corpora."acme/handbook"]   # the same keys, for one corpus of one tenant
//! ```
//!
//! Must not know the rest of the manifest.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::{Calibration, Calibrations, CorpusName};

/// What the program reads. Keys beside these say how the values were got, so unknown ones are no fault.
#[derive(Deserialize)]
struct Values {
    id: String,
    scale: f32,
    shift: f32,
    correct: f32,
    incorrect: f32,
}

/// Reads the table; an empty one is a model nobody has calibrated.
///
/// # Errors
/// What is wrong, with the key.
pub(super) fn read(mut table: toml::Table) -> Result<Calibrations, String> {
    let corpora = match table.remove("corpora") {
        None => BTreeMap::new(),
        Some(toml::Value::Table(corpora)) => (corpora.into_iter())
            .map(|(name, table)| of_corpus(&name, table))
            .collect::<Result<_, String>>()?,
        Some(_) => return Err("calibration.corpora must be a table".into()),
    };
    let of_model = if table.is_empty() {
        Calibration::conservative()
    } else {
        calibration("calibration", table.into())?
    };
    Ok(Calibrations::new(of_model, corpora))
}

fn of_corpus(name: &str, table: toml::Value) -> Result<((String, String), Calibration), String> {
    let key = format!("calibration.corpora.{name:?}");
    // The names of tenants follow the rule of corpora.
    let parts = name
        .split_once('/')
        .filter(|(tenant, corpus)| [tenant, corpus].iter().all(|n| CorpusName::new(n).is_ok()));
    let Some((tenant, corpus)) = parts else {
        return Err(format!("{key} must be named \"tenant/corpus\""));
    };
    let names = (tenant.to_owned(), corpus.to_owned());
    Ok((names, calibration(&key, table)?))
}

fn calibration(key: &str, table: toml::Value) -> Result<Calibration, String> {
    let values: Values = (table.try_into())
        .map_err(|error: toml::de::Error| format!("{key}: {}", error.message()))?;
    let finite = [values.scale, values.shift, values.correct, values.incorrect];
    if values.id.is_empty() {
        return Err(format!("{key}.id must not be empty"));
    }
    if !finite.iter().all(|value| value.is_finite()) {
        return Err(format!(
            "{key}: scale, shift, correct and incorrect must be finite"
        ));
    }
    if values.scale <= 0.0 {
        return Err(format!("{key}.scale must be above 0"));
    }
    let ordered = 0.0 <= values.incorrect && values.incorrect <= values.correct;
    if !(ordered && values.correct <= 1.0) {
        return Err(format!(
            "{key} must have 0 <= incorrect <= correct <= 1, they are probabilities"
        ));
    }
    Ok(Calibration {
        id: values.id,
        scale: values.scale,
        shift: values.shift,
        correct: values.correct,
        incorrect: values.incorrect,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CorpusRef, TenantId};

    const VALUES: &str = "id = \"c\"\nscale = 0.5\nshift = -1\ncorrect = 0.8\nincorrect = 0.1\n";

    fn read_text(text: &str) -> Result<Calibrations, String> {
        read(toml::from_str(text).expect("toml"))
    }

    fn of(calibrations: &Calibrations, tenant: &str, corpus: &str) -> Calibration {
        let tenant = TenantId::mint(tenant).expect("valid");
        let corpus = CorpusRef::new(tenant, CorpusName::new(corpus).expect("valid"));
        calibrations.of(&corpus).clone()
    }

    #[test]
    fn nothing_is_conservative() {
        let none = read_text("").expect("fine");
        assert_eq!(of(&none, "acme", "docs"), Calibration::conservative());
    }

    #[test]
    fn values_are_read_and_what_they_came_from_is_let_through() {
        let counts =
            "method = \"Platt\"\nmade = 2026-11-29\njudged_queries = 75\npositives = 200\n";
        let read = read_text(&format!("{VALUES}{counts}")).expect("fine");
        let read = of(&read, "acme", "docs");
        assert_eq!((read.id.as_str(), read.scale, read.shift), ("c", 0.5, -1.0));
        assert_eq!((read.correct, read.incorrect), (0.8, 0.1));
    }

    #[test]
    fn a_corpus_may_have_its_own_with_or_without_the_models() {
        let own = VALUES.replace("\"c\"", "\"own\"");
        let corpora = format!("[corpora.\"acme/docs\"]\n{own}");
        let alone = read_text(&corpora).expect("fine");
        assert_eq!(of(&alone, "acme", "docs").id, "own");
        assert!(!of(&alone, "acme", "other").is_measured());
        let both = read_text(&format!("{VALUES}{corpora}")).expect("fine");
        assert_eq!(of(&both, "acme", "docs").id, "own");
        assert_eq!(of(&both, "acme", "other").id, "c");
    }

    #[test]
    fn bad_values_are_refused_with_their_key() {
        let cases = [
            (VALUES.replace("\"c\"", "\"\""), "calibration.id"),
            (VALUES.replace("0.5", "0"), "scale must be above 0"),
            (VALUES.replace("0.5", "-0.5"), "scale must be above 0"),
            (VALUES.replace("-1", "nan"), "finite"),
            (VALUES.replace("0.5", "inf"), "finite"),
            (
                VALUES.replace("0.8", "1.1"),
                "0 <= incorrect <= correct <= 1",
            ),
            (
                VALUES.replace("0.1", "-0.1"),
                "0 <= incorrect <= correct <= 1",
            ),
            (
                VALUES.replace("0.1", "0.9"),
                "0 <= incorrect <= correct <= 1",
            ),
            (VALUES.replace("scale = 0.5\n", ""), "missing field `scale`"),
            (format!("[corpora.docs]\n{VALUES}"), "\"tenant/corpus\""),
            (
                format!("[corpora.\"a/b/c\"]\n{VALUES}"),
                "\"tenant/corpus\"",
            ),
            (
                format!("[corpora.\"a/b\"]\n{}", VALUES.replace("0.5", "0")),
                "calibration.corpora.\"a/b\".scale",
            ),
            ("corpora = 1".to_owned(), "must be a table"),
        ];
        for (text, expected) in cases {
            let problem = read_text(&text).expect_err(&text);
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
