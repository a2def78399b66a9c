//! The page stands alone, whatever callers asked.

use proptest::prelude::*;

use super::*;
use crate::wire::WireTimestamp;

const NASTY: &str = "</td><script>alert('x')</script><img src=x onerror=\"y\"> \u{202e}&amp;";

fn at(seconds: i64) -> Option<WireTimestamp> {
    Some(WireTimestamp { seconds, nanos: 0 })
}

fn query(text: &str) -> v1::QueryUse {
    v1::QueryUse {
        query: Some(v1::AskedQuery {
            text: text.into(),
            hashed: false,
        }),
        retrievals: 3,
        zero_hits: 2,
        first_at: at(0),
        last_at: at(60),
        ..v1::QueryUse::default()
    }
}

fn usage(text: &str) -> Usage {
    let document = v1::DocumentUse {
        document_id: text.into(),
        retrievals: 7,
        first_at: at(0),
        last_at: at(60),
        mean_scores: vec![v1::MeanScore {
            kind: v1::score::Kind::Rrf.into(),
            mean: 0.5,
        }],
        feedback: None,
    };
    let latency = |stage: &str| v1::Latency {
        stage: stage.into(),
        samples: 3,
        p50_ms: 1.0,
        p90_ms: 2.0,
        p95_ms: 3.0,
        p99_ms: 40.0,
        max_ms: 50.0,
    };
    Usage {
        corpus: "c".into(),
        totals: v1::CorpusTotals {
            corpus: "c".into(),
            retrievals: 9,
            outcomes: vec![v1::OutcomeCount {
                outcome: v1::outcome::Kind::Ok.into(),
                count: 9,
            }],
            ..v1::CorpusTotals::default()
        },
        timeline: (0..30)
            .map(|n| v1::TimeSlice {
                since: at(n * 60),
                until: at(n * 60 + 60),
                retrievals: n as u32,
                zero_hits: 1,
                failed: 1,
                degraded: 0,
            })
            .collect(),
        latencies: vec![latency(""), latency("hybrid")],
        documents: vec![document.clone()],
        poor_documents: vec![document],
        unretrieved: vec![v1::UnretrievedDocument {
            document_id: text.into(),
            ..v1::UnretrievedDocument::default()
        }],
        more_unretrieved: true,
        queries: vec![query(text)],
        zero_hit_queries: vec![query(text)],
        low_relevance_queries: vec![query(text)],
        clusters: vec![v1::QueryCluster {
            queries: vec![query(text).query.expect("set"); 7],
            retrievals: 9,
            shared_documents: vec![text.into()],
            similarity: 0.5,
            query_count: 7,
            shared_document_count: 1,
        }],
    }
}

/// Tags of a page by name; whatever was not escaped would add some.
fn tags(page: &str) -> Vec<&str> {
    let name = |part: &str| part.find([' ', '>', '/']).unwrap_or(part.len());
    let parts = page.split('<').skip(1);
    parts.map(|part| &part[..name(part)]).collect()
}

#[test]
fn a_page_stands_alone_and_escapes_what_callers_sent() {
    let page = usage_page("t1", &[usage(NASTY)]).expect("a page");
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;") && page.contains("&amp;amp;"));
    for outside in ["src=\"", "href=", "url(", "@import", "http-equiv"] {
        assert!(!page.contains(outside), "{outside} would fetch something");
    }
    // Over time, outcomes, latencies, documents, zero hits.
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(page.contains("and 2 more") && page.contains("0.500 RRF"));
}

#[test]
fn nothing_makes_a_page_too() {
    let page = usage_page("t1", &[]).expect("a page");
    assert!(page.contains("No retrieval is kept"));
    let empty = Usage {
        timeline: Vec::new(),
        latencies: Vec::new(),
        documents: Vec::new(),
        zero_hit_queries: Vec::new(),
        totals: v1::CorpusTotals::default(),
        ..usage("x")
    };
    assert!(usage_page("t1", &[empty]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_adds_a_tag(text in "[<>&\"'/a-z =!\\-\u{0}-\u{1f}\u{202e}]{0,60}") {
        let plain = usage_page("t1", &[usage("plain")]).expect("a page");
        let page = usage_page("t1", &[usage(&text)]).expect("a page");
        prop_assert_eq!(tags(&page), tags(&plain));
    }
}
