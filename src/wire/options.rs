//! Options of a retrieval from the wire, resolved against what this worker is configured for.

use super::fusion_options::{asked_legs, fusion_of};
use super::v1;
use crate::error::{Error, Result};
use crate::model::{
    CorrectiveMode, ExpansionOptions, ExpansionStrategy, Include, Leg, RerankAgainst,
    RetrievalOptions, StageName,
};

/// The option that a tenant without expansion may not set.
pub const EXPANSION_STRATEGY: &str = "options.expansion.strategy";
const MAX_HYPOTHETICALS: i32 = 5;

/// What this worker is configured for: options outside it are refused by name.
#[derive(Debug, Clone)]
pub struct RetrieveRules {
    /// The configured legs.
    pub legs: Vec<Leg>,
    /// Whether legs are fused by RRF (else DBSF, which knows no k and no weights).
    pub rrf: bool,
    /// Whether there is a cross-encoder: grading and reranking need it.
    pub cross_encoder: bool,
    /// Whether there is a language model: hypothetical documents and broader questions need it.
    pub generator: bool,
    /// Whether this tenant may have its queries expanded.
    pub may_expand: bool,
    /// What holds where a request says nothing.
    pub defaults: RetrievalOptions,
}

/// Validates options and fills in the defaults.
///
/// # Errors
/// `InvalidField` naming the option.
pub(super) fn options_of(
    options: v1::RetrieveOptions,
    rules: &RetrieveRules,
) -> Result<RetrievalOptions> {
    let expansion = expansion_of(options.expansion, rules)?;
    let corrective = corrective_of(options.corrective, rules)?;
    let rerank = rerank_of(options.rerank, rules)?;
    let parsed = RetrievalOptions {
        expansion,
        corrective,
        rerank,
        rerank_against: against_of(options.rerank_against, rerank, expansion.strategy)?,
        min_dense: ranged("options.minDense", options.min_dense, -1.0, 1.0)?,
        min_relevance: ranged("options.minRelevance", options.min_relevance, 0.0, 1.0)?,
        fusion: fusion_of(options.fusion, rules)?,
        require: Vec::new(),
        include: include_of(&options.include)?,
        max_chunks_per_document: chunks_per_document(options.max_chunks_per_document)?,
    };
    check_dense_floor(&parsed, rules)?;
    check_relevance_floor(&parsed, rules)?;
    Ok(RetrievalOptions {
        require: required(&options.require, &parsed)?,
        ..parsed
    })
}

fn expansion_of(
    options: Option<v1::ExpansionOptions>,
    rules: &RetrieveRules,
) -> Result<ExpansionOptions> {
    use v1::expansion_options::Strategy;
    const FIELD: &str = EXPANSION_STRATEGY;
    let mut defaults = rules.defaults.expansion;
    if !rules.may_expand {
        // What only the server would have chosen is not held against the tenant.
        defaults.strategy = ExpansionStrategy::None;
    }
    let Some(options) = options else {
        return Ok(defaults);
    };
    let strategy = match Strategy::try_from(options.strategy) {
        Ok(Strategy::Unspecified) => defaults.strategy,
        Ok(Strategy::None) => ExpansionStrategy::None,
        Ok(Strategy::Template) => ExpansionStrategy::Template,
        Ok(Strategy::Hyde) => ExpansionStrategy::Hyde,
        Ok(Strategy::StepBack) => ExpansionStrategy::StepBack,
        Ok(Strategy::HydeStepBack) => ExpansionStrategy::HydeStepBack,
        Err(_) => return Err(unknown(FIELD)),
    };
    if strategy != ExpansionStrategy::None && !rules.may_expand {
        return Err(Error::invalid_field(
            FIELD,
            "is not allowed for this tenant",
        ));
    }
    if strategy.needs_generator() && !rules.generator {
        return Err(unconfigured(FIELD, "a language model (llm.base_url)"));
    }
    let hypotheticals = match options.hypotheticals {
        None => defaults.hypotheticals,
        Some(n) if (1..=MAX_HYPOTHETICALS).contains(&n) => n.unsigned_abs(),
        Some(_) => {
            return Err(Error::invalid_field(
                "options.expansion.hypotheticals",
                "must be 1 to 5",
            ));
        }
    };
    Ok(ExpansionOptions {
        strategy,
        hypotheticals,
    })
}

fn corrective_of(mode: i32, rules: &RetrieveRules) -> Result<CorrectiveMode> {
    use v1::corrective::Mode;
    const FIELD: &str = "options.corrective";
    let mode = match Mode::try_from(mode) {
        Ok(Mode::Unspecified) => rules.defaults.corrective,
        Ok(Mode::Off) => CorrectiveMode::Off,
        Ok(Mode::Grade) => CorrectiveMode::Grade,
        Ok(Mode::Filter) => CorrectiveMode::Filter,
        Err(_) => return Err(unknown(FIELD)),
    };
    if mode != CorrectiveMode::Off && !rules.cross_encoder {
        return Err(unconfigured(
            FIELD,
            "a cross-encoder (models.cross_encoder)",
        ));
    }
    Ok(mode)
}

fn rerank_of(rerank: Option<bool>, rules: &RetrieveRules) -> Result<bool> {
    let rerank = rerank.unwrap_or(rules.defaults.rerank);
    if rerank && !rules.cross_encoder {
        return Err(unconfigured(
            "options.rerank",
            "a cross-encoder (models.cross_encoder)",
        ));
    }
    Ok(rerank)
}

/// With a broader question beside the caller's own, the narrow one would demote what only the broad one found.
fn against_of(target: i32, rerank: bool, strategy: ExpansionStrategy) -> Result<RerankAgainst> {
    use v1::rerank_against::Target;
    const FIELD: &str = "options.rerankAgainst";
    let against = match Target::try_from(target) {
        Ok(Target::Unspecified) if strategy.steps_back() => return Ok(RerankAgainst::BestQuery),
        Ok(Target::Unspecified) => return Ok(RerankAgainst::Original),
        Ok(Target::Original) => RerankAgainst::Original,
        Ok(Target::BestQuery) => RerankAgainst::BestQuery,
        Err(_) => return Err(unknown(FIELD)),
    };
    if rerank {
        Ok(against)
    } else {
        Err(Error::invalid_field(
            FIELD,
            "has no meaning without reranking",
        ))
    }
}

fn unknown(field: &str) -> Error {
    Error::invalid_field(field, "is not a known value")
}

fn unconfigured(field: &str, part: &str) -> Error {
    Error::invalid_field(field, format!("needs {part}, which is not configured"))
}

pub(super) fn ranged(field: &str, value: Option<f64>, low: f64, high: f64) -> Result<Option<f32>> {
    match value {
        None => Ok(None),
        Some(v) if (low..=high).contains(&v) => Ok(Some(v as f32)),
        Some(_) => Err(Error::invalid_field(
            field,
            format!("must be {low} to {high}"),
        )),
    }
}

fn check_dense_floor(options: &RetrievalOptions, rules: &RetrieveRules) -> Result<()> {
    let dense = rules.legs.contains(&Leg::Dense) && options.fusion.dense.is_none_or(|w| w > 0.0);
    if options.min_dense.is_some() && !dense {
        return Err(Error::invalid_field(
            "options.minDense",
            "needs the dense leg",
        ));
    }
    Ok(())
}

/// A floor needs a score that means something by itself.
fn check_relevance_floor(options: &RetrievalOptions, rules: &RetrieveRules) -> Result<()> {
    let probability = options.rerank
        || (options.wants(StageName::Corrective) && !options.wants(StageName::Expansion));
    let cosine =
        !options.wants(StageName::Expansion) && asked_legs(&options.fusion, rules) == [Leg::Dense];
    if options.min_relevance.is_some() && !probability && !cosine {
        return Err(Error::invalid_field(
            "options.minRelevance",
            "needs a final score of COSINE or CROSS_ENCODER; fused scores are no confidence",
        ));
    }
    Ok(())
}

/// Stages that this very request switches on.
fn required(names: &[String], options: &RetrievalOptions) -> Result<Vec<StageName>> {
    let stage = |name: &String| {
        StageName::parse(name)
            .filter(|stage| options.wants(*stage))
            .ok_or_else(|| {
                Error::invalid_field(
                    "options.require",
                    "names a stage that is not enabled for this request",
                )
            })
    };
    names.iter().map(stage).collect()
}

fn include_of(parts: &[i32]) -> Result<Include> {
    use v1::include::Part;
    if parts.is_empty() {
        return Ok(Include::default());
    }
    let mut include = Include {
        content: false,
        metadata: false,
    };
    for part in parts {
        match Part::try_from(*part) {
            Ok(Part::Content) => include.content = true,
            Ok(Part::Metadata) => include.metadata = true,
            Ok(Part::Unspecified) | Err(_) => {
                return Err(Error::invalid_field(
                    "options.include",
                    "must be CONTENT or METADATA",
                ));
            }
        }
    }
    Ok(include)
}

fn chunks_per_document(most: Option<i32>) -> Result<Option<u32>> {
    match most.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(most)) if most >= 1 => Ok(Some(most)),
        Some(_) => Err(Error::invalid_field(
            "options.maxChunksPerDocument",
            "must be at least 1",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::retrieve::tests::{decoded, decoded_with, refused, rules};
    use super::*;

    fn full() -> RetrieveRules {
        RetrieveRules {
            cross_encoder: true,
            generator: true,
            ..rules()
        }
    }

    fn options(json: &str, rules: &RetrieveRules) -> Result<RetrievalOptions> {
        let body = format!(r#"{{"corpus":"c","query":"q","options":{json}}}"#);
        decoded_with(&body, rules).map(|request| request.options)
    }

    #[test]
    fn a_stage_that_is_not_there_is_named() {
        for (options, field) in [
            (
                r#""options":{"expansion":{"strategy":"HYDE"}}"#,
                "options.expansion.strategy",
            ),
            (r#""options":{"corrective":"FILTER"}"#, "options.corrective"),
            (r#""options":{"rerank":true}"#, "options.rerank"),
            (
                r#""options":{"rerankAgainst":"BEST_QUERY"}"#,
                "options.rerankAgainst",
            ),
            (r#""options":{"require":["reranking"]}"#, "options.require"),
            (
                r#""options":{"fusion":{"bm25Weight":1}}"#,
                "options.fusion.bm25Weight",
            ),
        ] {
            assert_eq!(refused(options), field);
        }
        let off = r#""options":{"expansion":{"strategy":"NONE"},"corrective":"OFF","rerank":false,"require":["hybrid"]}"#;
        assert!(decoded(off).is_ok());
    }

    #[test]
    fn what_is_unset_is_what_is_configured() {
        let defaults = RetrievalOptions {
            corrective: CorrectiveMode::Filter,
            rerank: true,
            expansion: ExpansionOptions {
                strategy: ExpansionStrategy::HydeStepBack,
                hypotheticals: 3,
            },
            ..RetrievalOptions::default()
        };
        let rules = RetrieveRules { defaults, ..full() };
        let unset = options("{}", &rules).expect("valid");
        assert_eq!(unset.corrective, CorrectiveMode::Filter);
        assert!(unset.rerank);
        assert_eq!(unset.rerank_against, RerankAgainst::BestQuery);
        assert_eq!(unset.expansion.hypotheticals, 3);
        let off = options(
            r#"{"corrective":"OFF","rerank":false,"expansion":{"strategy":"NONE"}}"#,
            &rules,
        )
        .expect("valid");
        assert_eq!(
            off,
            RetrievalOptions {
                expansion: ExpansionOptions {
                    hypotheticals: 3,
                    ..ExpansionOptions::default()
                },
                ..RetrievalOptions::default()
            }
        );
        let fewer = options(r#"{"expansion":{"hypotheticals":2}}"#, &rules).expect("valid");
        assert_eq!(fewer.expansion.strategy, ExpansionStrategy::HydeStepBack);
        assert_eq!(fewer.expansion.hypotheticals, 2);
    }

    #[test]
    fn reranking_goes_against_the_best_query_only_where_one_was_made() {
        let against = |json: &str| options(json, &full()).expect("valid").rerank_against;
        assert_eq!(against(r#"{"rerank":true}"#), RerankAgainst::Original);
        let hyde = r#"{"rerank":true,"expansion":{"strategy":"HYDE"}}"#;
        assert_eq!(against(hyde), RerankAgainst::Original);
        let back = r#"{"rerank":true,"expansion":{"strategy":"STEP_BACK"}}"#;
        assert_eq!(against(back), RerankAgainst::BestQuery);
        let told =
            r#"{"rerank":true,"rerankAgainst":"ORIGINAL","expansion":{"strategy":"STEP_BACK"}}"#;
        assert_eq!(against(told), RerankAgainst::Original);
        let alone = options(r#"{"rerankAgainst":"BEST_QUERY"}"#, &full());
        assert_eq!(
            alone.expect_err("refused").field(),
            Some("options.rerankAgainst")
        );
    }

    #[test]
    fn a_floor_needs_a_final_score_that_means_something() {
        let floor = |more: &str| options(&format!(r#"{{"minRelevance":0.5{more}}}"#), &full());
        for good in [
            r#","rerank":true"#,
            r#","corrective":"GRADE""#,
            r#","fusion":{"sparseWeight":0}"#,
            r#","rerank":true,"expansion":{"strategy":"HYDE"}"#,
        ] {
            assert!(floor(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            r#","expansion":{"strategy":"TEMPLATE"}"#,
            r#","corrective":"GRADE","expansion":{"strategy":"TEMPLATE"}"#,
            r#","fusion":{"sparseWeight":0},"expansion":{"strategy":"TEMPLATE"}"#,
        ] {
            let error = floor(bad).expect_err(bad);
            assert_eq!(error.field(), Some("options.minRelevance"), "{bad}");
        }
    }

    #[test]
    fn only_stages_of_this_request_can_be_required() {
        let require = |json: &str| options(json, &full()).map(|o| o.require);
        let wanted = r#"{"rerank":true,"require":["reranking","hybrid"]}"#;
        assert_eq!(
            require(wanted).expect("valid"),
            [StageName::Reranking, StageName::Hybrid]
        );
        for bad in [r#"["reranking"]"#, r#"["corrective"]"#, r#"["nonsense"]"#] {
            let error = require(&format!(r#"{{"require":{bad}}}"#)).expect_err(bad);
            assert_eq!(error.field(), Some("options.require"));
        }
    }

    #[test]
    fn a_tenant_without_expansion_is_refused_what_it_asks_for_and_spared_the_default() {
        let defaults = RetrievalOptions {
            expansion: ExpansionOptions {
                strategy: ExpansionStrategy::Template,
                hypotheticals: 1,
            },
            ..RetrievalOptions::default()
        };
        let rules = RetrieveRules {
            may_expand: false,
            defaults,
            ..full()
        };
        for quiet in [
            "{}",
            r#"{"expansion":{}}"#,
            r#"{"expansion":{"hypotheticals":2}}"#,
            r#"{"expansion":{"strategy":"NONE"}}"#,
        ] {
            let options = options(quiet, &rules).expect(quiet);
            assert_eq!(
                options.expansion.strategy,
                ExpansionStrategy::None,
                "{quiet}"
            );
        }
        for asked in ["TEMPLATE", "HYDE", "STEP_BACK", "HYDE_STEP_BACK"] {
            let json = format!(r#"{{"expansion":{{"strategy":"{asked}"}}}}"#);
            let error = options(&json, &rules).expect_err(asked);
            assert_eq!(error.field(), Some(EXPANSION_STRATEGY));
            assert!(error.message().ends_with("is not allowed for this tenant"));
        }
        let required = options(r#"{"require":["expansion"]}"#, &rules);
        assert_eq!(required.expect_err("off").field(), Some("options.require"));
    }

    #[test]
    fn hypotheticals_are_one_to_five() {
        for bad in ["0", "6", "-1"] {
            let json = format!(r#"{{"expansion":{{"strategy":"HYDE","hypotheticals":{bad}}}}}"#);
            let error = options(&json, &full()).expect_err(bad);
            assert_eq!(error.field(), Some("options.expansion.hypotheticals"));
        }
    }
}
