//! What is measured: names with wire options, and what each is compared with.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::wire::v1::{
    ExpansionOptions, FusionOptions, RetrieveOptions, corrective, expansion_options::Strategy,
};

/// Measured when nothing is said, in this order: each stage comes after what it is compared with.
const DEFAULT: &[&str] = &[
    "dense",
    "sparse",
    "bm25",
    "hybrid",
    "corrective-grade",
    "corrective-filter",
    "reranking",
    "corrective+reranking",
    "expansion-template",
];
/// Built in, and measured when named: they ask a language model.
const ON_REQUEST: &[&str] = &["expansion-hyde", "expansion-step-back"];

/// Options with a name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Configuration {
    /// The name.
    pub name: String,
    /// The options of its requests.
    #[serde(default)]
    pub options: RetrieveOptions,
    /// What it is compared with. Read from a file, none = the configuration before it.
    #[serde(default)]
    pub baselines: Option<Vec<String>>,
}

/// The configurations that `--configurations` asks for. `legs` are those of the service.
///
/// # Errors
/// `InvalidField` for a name that isn't built in, or for a file, with its line, that can't be read.
pub(super) fn configurations(asked: Option<&str>, legs: &[String]) -> Result<Vec<Configuration>> {
    let Some(asked) = asked else {
        return DEFAULT.iter().map(|name| built_in(name, legs)).collect();
    };
    let path = Path::new(asked);
    if path.is_file() {
        return from_text(asked, &super::dataset::text(path)?);
    }
    asked
        .split(',')
        .map(|name| built_in(name.trim(), legs))
        .collect()
}

/// A JSON array, or an object a line.
fn from_text(name: &str, text: &str) -> Result<Vec<Configuration>> {
    let wrong = |problem: String| Error::invalid_field(name, problem);
    let mut all: Vec<Configuration> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
            .map_err(|e| wrong(format!("is no list of configurations: {e}")))?
    } else {
        let lines = (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty());
        let read = |(number, line)| {
            serde_json::from_str(line)
                .map_err(|e| wrong(format!("line {number} is no configuration: {e}")))
        };
        lines.map(read).collect::<Result<_>>()?
    };
    let names: Vec<String> = all.iter().map(|c| c.name.clone()).collect();
    for (index, configuration) in all.iter_mut().enumerate() {
        let own = &names[index];
        if own.trim().is_empty() || names[..index].contains(own) {
            return Err(wrong(format!(
                "has configurations without a name of their own: {own:?}"
            )));
        }
        let before = names[..index].last().cloned().into_iter().collect();
        let baselines = configuration.baselines.get_or_insert(before);
        if let Some(unknown) = baselines
            .iter()
            .find(|name| !names.contains(name) || *name == own)
        {
            return Err(wrong(format!(
                "compares {own:?} with {unknown:?}, which is no other configuration"
            )));
        }
    }
    if all.is_empty() {
        return Err(wrong("has no configuration".to_owned()));
    }
    Ok(all)
}

/// A leg is switched off by its weight; every stage is switched explicitly, so that the service's own settings don't matter.
fn built_in(name: &str, legs: &[String]) -> Result<Configuration> {
    let mut options = RetrieveOptions {
        expansion: Some(strategy(Strategy::None)),
        corrective: corrective::Mode::Off.into(),
        rerank: Some(false),
        ..RetrieveOptions::default()
    };
    let baselines: &[&str] = match name {
        "dense" => &[],
        "sparse" | "bm25" => &["dense"],
        "hybrid" => &["dense", "sparse", "bm25"],
        "corrective-filter" => &["hybrid", "corrective-grade"],
        "corrective+reranking" => &["hybrid", "corrective-filter"],
        _ => &["hybrid"],
    };
    match name {
        "dense" | "sparse" | "bm25" => options.fusion = Some(only(name, legs)),
        "hybrid" => {}
        "corrective-grade" => options.corrective = corrective::Mode::Grade.into(),
        "corrective-filter" => options.corrective = corrective::Mode::Filter.into(),
        "reranking" => options.rerank = Some(true),
        "corrective+reranking" => {
            options.corrective = corrective::Mode::Filter.into();
            options.rerank = Some(true);
        }
        "expansion-template" => options.expansion = Some(strategy(Strategy::Template)),
        "expansion-hyde" => options.expansion = Some(strategy(Strategy::Hyde)),
        "expansion-step-back" => options.expansion = Some(strategy(Strategy::StepBack)),
        _ => {
            let known = [DEFAULT, ON_REQUEST].concat().join(", ");
            let problem = format!("has {name:?}, which is no file and not built in: {known}");
            return Err(Error::invalid_field("--configurations", problem));
        }
    }
    Ok(Configuration {
        name: name.to_owned(),
        options,
        baselines: Some(baselines.iter().map(|b| (*b).to_owned()).collect()),
    })
}

fn strategy(strategy: Strategy) -> ExpansionOptions {
    ExpansionOptions {
        strategy: strategy.into(),
        hypotheticals: None,
    }
}

/// Weight 0 for every other leg that the service has.
fn only(leg: &str, legs: &[String]) -> FusionOptions {
    let off = |other: &str| (other != leg && legs.iter().any(|l| l == other)).then_some(0.0);
    // The leg's own weight is said: without the leg, that is an error that names it.
    let weight = |other: &str| if other == leg { Some(1.0) } else { off(other) };
    FusionOptions {
        k: None,
        dense_weight: weight("dense"),
        sparse_weight: weight("sparse"),
        bm25_weight: weight("bm25"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legs() -> Vec<String> {
        vec!["dense".into(), "sparse".into()]
    }

    #[test]
    fn every_built_in_name_works_and_its_baselines_come_before_it() {
        let all = configurations(None, &legs()).expect("built in");
        for (index, configuration) in all.iter().enumerate() {
            for baseline in configuration.baselines.iter().flatten() {
                assert!(
                    all[..index].iter().any(|c| c.name == *baseline),
                    "{baseline}"
                );
            }
        }
        let dense = all[0].options.fusion.expect("weights");
        assert_eq!(
            (dense.dense_weight, dense.sparse_weight, dense.bm25_weight),
            (Some(1.0), Some(0.0), None)
        );
        let named = configurations(Some("hybrid, expansion-hyde"), &legs()).expect("built in");
        assert_eq!((named.len(), named[0].options.rerank), (2, Some(false)));
        let error = configurations(Some("hybird"), &legs()).unwrap_err();
        assert!(error.message().contains("expansion-step-back"), "{error}");
    }

    #[test]
    fn files_hold_lines_or_a_list() {
        let lines = "{\"name\":\"a\"}\n\n{\"name\":\"b\",\"options\":{\"fusion\":{\"k\":10}}}\n\
            {\"name\":\"c\",\"baselines\":[\"a\"]}\n";
        let read = from_text("f", lines).expect("lines");
        assert_eq!(read[1].options.fusion.and_then(|f| f.k), Some(10));
        let baselines: Vec<_> = read
            .iter()
            .map(|c| c.baselines.clone().unwrap_or_default())
            .collect();
        assert_eq!(
            baselines,
            [vec![], vec!["a".to_owned()], vec!["a".to_owned()]]
        );
        let array = format!(
            "[{}]",
            lines
                .trim()
                .lines()
                .filter(|l| !l.is_empty())
                .collect::<Vec<_>>()
                .join(",")
        );
        assert_eq!(from_text("f", &array).expect("a list"), read);
    }

    #[test]
    fn bad_files_are_told() {
        let cases = [
            (
                "{\"name\":\"a\"}\n{\"nam\":1}",
                "f line 2 is no configuration",
            ),
            (
                "{\"name\":\"a\",\"options\":{\"reranking\":true}}",
                "f line 1 is no configuration",
            ),
            ("[1]", "f is no list"),
            ("[]", "f has no configuration"),
            (
                "{\"name\":\"a\"}\n{\"name\":\"a\"}",
                "without a name of their own",
            ),
            (
                "{\"name\":\"a\",\"baselines\":[\"x\"]}",
                "compares \"a\" with \"x\"",
            ),
        ];
        for (text, expected) in cases {
            let error = from_text("f", text).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
