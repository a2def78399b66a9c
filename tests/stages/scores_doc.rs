//! `docs/scores.md` says what numbers mean; what it says holds.

use ragbus::model::{
    CorrectiveMode, ExpansionOptions, ExpansionStrategy, ModelIds, RetrievalOptions,
    RetrievalRequest,
};
use ragbus::tenancy::TenancyStrategy;
use ragbus::wire::{Encoding, encode, retrieve_response};
use serde_json::Value;

use super::combinations::{desk, overlap};
use super::fakes::{ask, request};

/// What the shared request asks.
const QUESTION: &str = "money loan river";
const PAGE: &str = include_str!("../../docs/scores.md");

/// The rows of the table under this header, cell by cell.
fn rows(header: &str) -> Vec<Vec<String>> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(header));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| -> Vec<String> {
        let row = row.trim_matches('|');
        row.split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

fn options(row: &[String]) -> RetrievalOptions {
    let on = |cell: &str| match cell {
        "on" => true,
        "off" => false,
        other => panic!("neither on nor off: {other}"),
    };
    RetrievalOptions {
        expansion: ExpansionOptions {
            strategy: if on(&row[0]) {
                ExpansionStrategy::HydeStepBack
            } else {
                ExpansionStrategy::None
            },
            hypotheticals: 1,
        },
        corrective: if on(&row[1]) {
            CorrectiveMode::Grade
        } else {
            CorrectiveMode::Off
        },
        rerank: on(&row[2]),
        ..RetrievalOptions::default()
    }
}

/// A chunk as it stands in a reply, against its row.
fn check(chunk: &Value, row: &[String]) {
    let what = format!("{row:?}: {chunk}");
    assert_eq!(chunk["scoreKind"], row[3], "{what}");
    let score = chunk["relevanceScore"].as_f64().expect("a number");
    let most = if row[3] == "CROSS_ENCODER" {
        1.0
    } else {
        3.0 / 61.0
    };
    assert!((0.0..=most).contains(&score), "{what}");
    let metadata = &chunk["metadata"];
    let preserved = &metadata["_vectorSimilarity"];
    match row[4].as_str() {
        "absent" => assert!(preserved.is_null(), "{what}"),
        "the fused score" => assert_eq!(preserved, &chunk["signals"]["fused"], "{what}"),
        "the merged score" => assert!(
            preserved.as_f64().is_some_and(|s| s <= 3.0 / 61.0),
            "{what}"
        ),
        other => panic!("an unknown word: {other}"),
    }
    let raw = &metadata["_crossEncoderScore"];
    match row[5].as_str() {
        "absent" => assert!(raw.is_null(), "{what}"),
        "raw output" => assert_eq!(raw, &chunk["signals"]["crossEncoderLogit"], "{what}"),
        // Never the score for the broader question, which the same chunk may have too.
        "if for the original" if raw.is_null() => {}
        "if for the original" => {
            let content = chunk["content"].as_str().expect("text");
            let shared = QUESTION.split(' ').filter(|w| content.contains(w)).count();
            assert_eq!(raw.as_f64(), Some(shared as f64 * 2.0 - 3.0), "{what}");
        }
        other => panic!("an unknown word: {other}"),
    }
    match row[6].as_str() {
        "absent" => assert!(metadata["_reranked"].is_null(), "{what}"),
        "true" => assert_eq!(metadata["_reranked"], true, "{what}"),
        other => panic!("an unknown word: {other}"),
    }
    match row[7].as_str() {
        "graded" => assert_ne!(chunk["grade"], "UNGRADED", "{what}"),
        grade => assert_eq!(chunk["grade"], grade, "{what}"),
    }
}

#[tokio::test]
async fn every_row_of_the_stage_table_holds() {
    let desk = desk(TenancyStrategy::Separate, overlap(), 300).await;
    let rows = rows("| expansion | corrective | reranking |");
    assert_eq!(rows.len(), 8, "every combination");
    let mut seen = std::collections::BTreeSet::new();
    for row in &rows {
        assert!(seen.insert(row[..3].to_vec()), "{row:?} twice");
        let request = RetrievalRequest {
            options: options(row),
            ..request(10)
        };
        let answer = ask(&desk.pipeline, &request).await;
        let reply = retrieve_response(&request, &answer, "id", "request", &ModelIds::default());
        let reply: Value = serde_json::from_slice(&encode(&reply, Encoding::Json)).expect("JSON");
        let results = reply["results"].as_array().expect("results");
        assert!(!results.is_empty());
        results.iter().for_each(|chunk| check(chunk, row));
        let scored = |chunk: &Value| chunk["metadata"]["_crossEncoderScore"].is_number();
        assert_eq!(results.iter().any(scored), row[5] != "absent", "{row:?}");
    }
}

#[test]
fn every_kind_of_the_schema_is_explained() {
    let schema = include_str!("../../schemas/ragbus/v1/retrieve.proto");
    let kinds = schema.split("message Score {").nth(1).expect("the message");
    let kinds = kinds.split('}').next().expect("its enum");
    let names = kinds
        .lines()
        .filter_map(|line| line.trim().split(" = ").next());
    let mut names: Vec<String> = names
        .filter(|name| {
            name.chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        })
        .filter(|name| !name.is_empty() && *name != "KIND_UNSPECIFIED")
        .map(str::to_owned)
        .collect();
    let mut told: Vec<String> = rows("| `scoreKind` | range |")
        .into_iter()
        .map(|r| r[0].clone())
        .collect();
    names.sort();
    told.sort();
    assert_eq!(names, told);
}
