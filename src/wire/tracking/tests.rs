//! Records by chance: each comes back as it was, and strange bytes are refused.

use proptest::prelude::*;

use super::*;
use crate::model::{
    ChunkFate, ChunkId, DocumentId, Grade, LegSignal, ModelIds, Origin, Outcome, QueryText,
    RetrievalQuality, ScoreKind, Signals, TrackedChunk,
};
use crate::wire::retrieve::tests::{decoded_with, rules};

fn tenant() -> TenantId {
    let request = r#"{"corpus":"c","query":"q"}"#;
    let decoded = decoded_with(request, &rules()).expect("valid");
    decoded.corpus.tenant
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

/// The wire knows one zero.
fn score() -> impl Strategy<Value = f32> {
    any::<f32>().prop_map(|score| score + 0.0)
}

fn signals() -> impl Strategy<Value = Signals> {
    let leg = || {
        let leg = (score(), any::<u32>()).prop_map(|(score, rank)| LegSignal { score, rank });
        prop::option::of(leg)
    };
    let number = || prop::option::of(-1e6..1e6f32);
    (leg(), leg(), leg(), number(), number()).prop_map(
        |(dense, sparse, bm25, fused, cross_encoder_logit)| Signals {
            dense,
            sparse,
            bm25,
            fused,
            cross_encoder_logit,
        },
    )
}

fn chunk() -> impl Strategy<Value = TrackedChunk> {
    let kinds = [
        ScoreKind::Cosine,
        ScoreKind::SparseDot,
        ScoreKind::Bm25,
        ScoreKind::Rrf,
        ScoreKind::Dbsf,
        ScoreKind::CrossEncoder,
    ];
    let grades = [
        Grade::Correct,
        Grade::Ambiguous,
        Grade::Incorrect,
        Grade::Ungraded,
    ];
    let fates = [
        ChunkFate::Returned,
        ChunkFate::Incorrect,
        ChunkFate::BelowMinRelevance,
        ChunkFate::DocumentLimit,
        ChunkFate::Limit,
        ChunkFate::MessageSize,
    ];
    let names = (any::<u128>(), "[a-f0-9]{64}", "[a-zä/.]{1,20}");
    let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), score());
    let verdicts = (one_of(&kinds), one_of(&grades), one_of(&fates));
    (names, numbers, verdicts, signals()).prop_map(|(names, numbers, verdicts, signals)| {
        TrackedChunk {
            chunk_id: ChunkId(names.0),
            content_hash: names.1,
            document_id: DocumentId::new(&names.2).expect("valid"),
            document_sequence: numbers.0,
            ordinal: numbers.1,
            rank: numbers.2,
            relevance: numbers.3,
            score_kind: verdicts.0,
            grade: verdicts.1,
            signals,
            fate: verdicts.2,
        }
    })
}

fn query() -> impl Strategy<Value = QueryText> {
    let origins = [
        Origin::Original,
        Origin::Template,
        Origin::Hyde,
        Origin::StepBack,
    ];
    (text(), prop::option::of(text()), one_of(&origins)).prop_map(
        |(text, expanded_text, origin)| QueryText {
            text,
            expanded_text,
            origin,
        },
    )
}

fn stage() -> impl Strategy<Value = StageReport> {
    let counts = (any::<u32>(), any::<u32>(), any::<u32>());
    (one_of(&StageName::ORDER), any::<u64>(), counts).prop_map(|(stage, nanos, counts)| {
        StageReport {
            stage,
            duration: Duration::from_nanos(nanos),
            inputs: counts.0,
            outputs: counts.1,
            model_calls: counts.2,
        }
    })
}

fn end() -> impl Strategy<Value = TrackedEnd> {
    let outcomes = [
        Outcome::Ok,
        Outcome::NoCorpus,
        Outcome::NoMatch,
        Outcome::NoRelevantContext,
    ];
    prop_oneof![
        one_of(&outcomes).prop_map(TrackedEnd::Answered),
        one_of(&ErrorKind::ALL).prop_map(TrackedEnd::Failed),
    ]
}

fn record() -> impl Strategy<Value = RetrievalRecord> {
    let names = (text(), text(), text(), text(), text(), text());
    let query_text = prop_oneof![
        text().prop_map(TrackedQuery::Text),
        text().prop_map(TrackedQuery::Hash),
    ];
    let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>());
    let lists = (
        prop::collection::vec(query(), 0..4),
        prop::collection::vec(stage(), 0..6),
        prop::collection::vec(one_of(&StageName::ORDER), 0..3),
        prop::collection::vec(text(), 0..3),
        prop::collection::vec(chunk(), 0..6),
    );
    let numbers = (any::<u128>(), any::<i64>(), any::<u32>(), any::<u64>());
    let models = (text(), text(), text());
    (names, query_text, counts, lists, numbers, models, end()).prop_map(
        |(names, query, counts, lists, numbers, models, end)| RetrievalRecord {
            id: RetrievalId::from_u128(numbers.0),
            corpus: CorpusRef::new(tenant(), CorpusName::new("docs").expect("valid")),
            at: Timestamp::from_micros(numbers.1),
            request_id: names.0,
            worker: names.1,
            actor: names.2,
            purpose: names.3,
            query,
            queries: lists.0,
            limit: numbers.2,
            options: names.4,
            end,
            quality: RetrievalQuality {
                correct: counts.0 / 4,
                ambiguous: counts.1 / 4,
                incorrect: counts.2 / 4,
                corrected: counts.3,
            },
            stages: lists.1,
            degraded: lists.2,
            warnings: lists.3,
            models: ModelIds {
                dense: models.0,
                sparse: models.1,
                cross_encoder: models.2,
            },
            calibration: names.5,
            duration: Duration::from_nanos(numbers.3),
            chunks: lists.4,
        },
    )
}

proptest! {
    #[test]
    fn an_event_loses_nothing(record in record()) {
        let event = retrieval_recorded(&record);
        prop_assert_eq!(event_size(&record), event.encoded_len());
        let back = record_of(&tenant(), record.at, &event.encode_to_vec()).expect("ours");
        // NaN is not equal to itself, and is kept all the same.
        prop_assert_eq!(format!("{back:?}"), format!("{record:?}"));
    }

    #[test]
    fn a_newer_workers_fields_are_passed_over(record in record(), tag in 100u32..5_000, value: u64) {
        let mut body = retrieval_recorded(&record).encode_to_vec();
        prost::encoding::uint64::encode(tag, &value, &mut body);
        let back = record_of(&tenant(), record.at, &body).expect("ours");
        prop_assert_eq!(format!("{back:?}"), format!("{record:?}"));
    }

    #[test]
    fn a_newer_workers_values_leave_out_what_bears_them(record in record(), value in 100i32..200) {
        let mut event = retrieval_recorded(&record);
        let stages = event.stages.len();
        event.chunks.extend(event.chunks.first().cloned().map(|chunk| v1::TrackedChunk { fate: value, ..chunk }));
        event.stages.push(v1::TrackedStage { name: "boosting".to_owned(), ..v1::TrackedStage::default() });
        event.degraded.push("boosting".to_owned());
        let back = record_of(&tenant(), record.at, &event.encode_to_vec()).expect("ours");
        prop_assert_eq!(back.chunks.len(), record.chunks.len());
        prop_assert_eq!(back.stages.len(), stages);
        prop_assert_eq!(back.degraded, record.degraded);
    }

    #[test]
    fn no_bytes_panic_and_other_tenants_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), record in record()) {
        let _ = record_of(&tenant(), record.at, &bytes);
        let forged = v1::RetrievalRecorded { tenant: "t2".to_owned(), ..retrieval_recorded(&record) };
        let refused = record_of(&tenant(), record.at, &forged.encode_to_vec()).expect_err("another tenant's");
        prop_assert_eq!(refused.kind(), ErrorKind::TenantInvalid);
    }
}
