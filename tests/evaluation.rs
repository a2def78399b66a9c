//! Measures against `trec_eval`'s own values (`scripts/make_trec_eval_fixture.py`).

use std::collections::BTreeMap;

use ragbus::evaluation::{Judgements, Metric, parse_run};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    judgements: BTreeMap<String, BTreeMap<String, i32>>,
    runs: Vec<Expected>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    relevant_from: i32,
    run: BTreeMap<String, BTreeMap<String, f64>>,
    expected: BTreeMap<String, BTreeMap<String, f64>>,
}

fn metric(name: &str) -> Metric {
    let (name, k) = name.split_once('@').expect("a cut");
    let k = k.parse().expect("a rank");
    match name {
        "nDCG" => Metric::Ndcg(k),
        "MRR" => Metric::ReciprocalRank(k),
        "Recall" => Metric::Recall(k),
        "judged" => Metric::Judged(k),
        other => panic!("{other}"),
    }
}

/// Everything goes through the text that `trec_eval` reads.
#[test]
fn values_agree_with_trec_eval() {
    let fixture: Fixture =
        serde_json::from_str(include_str!("fixtures/trec_eval.json")).expect("a fixture");
    let mut qrels = String::new();
    for (query, grades) in &fixture.judgements {
        for (document, grade) in grades {
            qrels.push_str(&format!("{query} 0 {document} {grade}\n"));
        }
    }
    let judgements = Judgements::parse("qrels", &qrels).expect("judgements");
    let mut compared = 0;
    for case in fixture.runs {
        let mut text = String::new();
        for (query, scores) in &case.run {
            for (document, score) in scores {
                text.push_str(&format!("{query} Q0 {document} 0 {score:?} made\n"));
            }
        }
        let rankings = parse_run("run", &text).expect("a run").rankings();
        for (query, values) in &case.expected {
            let grades = judgements.of(query).expect("judged");
            for (name, expected) in values {
                let value = metric(name).value(&rankings[query], grades, case.relevant_from);
                assert!(
                    (value - expected).abs() < 1e-6,
                    "{query} {name}: {value}, not {expected}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 700, "{compared}");
}
