//! Resolved options and filter as JSON text, in the wire's own words: what a record keeps of them.
//!
//! Must not know what they mean.

use serde_json::{Map, Value, json};

use super::WireTimestamp;
use crate::model::{
    Bound, CorrectiveMode, ExpansionStrategy, Filter, FilterValue, FusionWeights, Range,
    RerankAgainst, RetrievalOptions, RetrievalRequest, StageName,
};

/// The options of a request, every one resolved, and its filter.
pub fn options_json(request: &RetrievalRequest) -> String {
    let mut all = options(&request.options);
    if request.explain {
        all.insert("explain".to_owned(), json!(true));
    }
    if let Some(filter) = &request.filter {
        all.insert("filter".to_owned(), filter_json(filter));
    }
    Value::Object(all).to_string()
}

fn options(options: &RetrievalOptions) -> Map<String, Value> {
    let strategy = match options.expansion.strategy {
        ExpansionStrategy::None => "NONE",
        ExpansionStrategy::Template => "TEMPLATE",
        ExpansionStrategy::Hyde => "HYDE",
        ExpansionStrategy::StepBack => "STEP_BACK",
        ExpansionStrategy::HydeStepBack => "HYDE_STEP_BACK",
    };
    let corrective = match options.corrective {
        CorrectiveMode::Off => "OFF",
        CorrectiveMode::Grade => "GRADE",
        CorrectiveMode::Filter => "FILTER",
    };
    let against = match options.rerank_against {
        RerankAgainst::Original => "ORIGINAL",
        RerankAgainst::BestQuery => "BEST_QUERY",
    };
    let include = options.include;
    let parts = [(include.content, "CONTENT"), (include.metadata, "METADATA")];
    let parts = parts
        .into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| name);
    let fields = [
        (
            "expansion",
            json!({ "strategy": strategy, "hypotheticals": options.expansion.hypotheticals }),
        ),
        ("corrective", json!(corrective)),
        ("rerank", json!(options.rerank)),
        ("rerankAgainst", json!(against)),
        ("minRelevance", json!(options.min_relevance)),
        ("minDense", json!(options.min_dense)),
        ("fusion", fusion(&options.fusion)),
        (
            "require",
            json!(
                options
                    .require
                    .iter()
                    .map(|stage: &StageName| stage.name())
                    .collect::<Vec<_>>()
            ),
        ),
        ("include", json!(parts.collect::<Vec<_>>())),
        (
            "maxChunksPerDocument",
            json!(options.max_chunks_per_document),
        ),
    ];
    let set = fields.into_iter().filter(|(_, value)| !value.is_null());
    set.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn fusion(weights: &FusionWeights) -> Value {
    let fields = [
        ("k", json!(weights.k)),
        ("denseWeight", json!(weights.dense)),
        ("sparseWeight", json!(weights.sparse)),
        ("bm25Weight", json!(weights.bm25)),
    ];
    let set: Map<String, Value> = (fields.into_iter())
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    if set.is_empty() {
        Value::Null
    } else {
        Value::Object(set)
    }
}

/// As a request has it; the depth of a filter is bounded.
fn filter_json(filter: &Filter) -> Value {
    let all = |filters: &[Filter]| json!({ "filters": filters.iter().map(filter_json).collect::<Vec<_>>() });
    match filter {
        Filter::Eq(field, value) => json!({ "eq": { "field": field, "value": scalar(value) } }),
        Filter::In(field, values) => {
            let values: Vec<Value> = values.iter().map(scalar).collect();
            json!({ "in": { "field": field, "values": values } })
        }
        Filter::Range(field, range) => json!({ "range": range_json(field, range) }),
        Filter::Exists(field) => json!({ "exists": { "field": field } }),
        Filter::And(filters) => json!({ "and": all(filters) }),
        Filter::Or(filters) => json!({ "or": all(filters) }),
        Filter::Not(filter) => json!({ "not": filter_json(filter) }),
    }
}

fn scalar(value: &FilterValue) -> Value {
    match value {
        FilterValue::String(text) => json!(text),
        FilterValue::Number(number) => json!(number),
        FilterValue::Bool(truth) => json!(truth),
    }
}

fn range_json(field: &str, range: &Range) -> Value {
    let bounds = [
        ("gte", range.gte),
        ("gt", range.gt),
        ("lte", range.lte),
        ("lt", range.lt),
    ];
    let set = bounds
        .into_iter()
        .filter_map(|(name, bound)| Some((name.to_owned(), bound_json(bound?))));
    let mut all: Map<String, Value> = set.collect();
    all.insert("field".to_owned(), json!(field));
    Value::Object(all)
}

fn bound_json(bound: Bound) -> Value {
    match bound {
        Bound::Number(number) => json!(number),
        Bound::Time(time) => serde_json::to_value(WireTimestamp::from(time)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::retrieve::tests::decoded_with;
    use crate::wire::retrieve::tests::rules;

    #[test]
    fn what_is_kept_is_a_request_that_resolves_to_the_same() {
        let filter = r#"{"and":{"filters":[{"eq":{"field":"a","value":"x"}},{"in":{"field":"b","values":[1.5,true]}},
            {"range":{"field":"c","gte":"2024-05-01T00:00:00Z","lt":"2025-05-01T00:00:00Z"}},
            {"range":{"field":"n","gt":1.0}},{"or":{"filters":[{"exists":{"field":"d"}}]}},{"not":{"exists":{"field":"e"}}}]}}"#;
        let options = r#"{"expansion":{"strategy":"TEMPLATE"},"minDense":0.5,"fusion":{"k":7,"denseWeight":2.0},
            "require":["hybrid"],"include":["CONTENT"],"maxChunksPerDocument":2}"#;
        let body = format!(r#"{{"corpus":"c","query":"q","filter":{filter},"options":{options}}}"#);
        let request = decoded_with(&body, &rules()).expect("valid");
        let mut kept: Value = serde_json::from_str(&options_json(&request)).expect("JSON");
        let filter = kept["filter"].take();
        kept.as_object_mut().expect("an object").remove("filter");
        // Refused where nothing is reranked: a default, not the caller's.
        kept.as_object_mut()
            .expect("an object")
            .remove("rerankAgainst");
        let again = json!({ "corpus": "c", "query": "q", "filter": filter, "options": kept });
        let again = decoded_with(&again.to_string(), &rules()).expect("valid");
        assert_eq!(again, request);
    }
}
