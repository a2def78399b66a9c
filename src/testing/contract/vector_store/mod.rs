//! The contract of `VectorStore`: every sentence of the trait's docs as a case.
//!
//! Each case takes the store and uses corpora of its own, so cases may share a store and run at once. Scores are
//! compared with a tolerance and ties in any order, so that approximate stores pass. Must not know an implementation.

mod filters;
mod fixture;
mod lifecycle;
mod queries;
mod tenancy;
mod writes;

pub use filters::{
    exists_and_metadata_types, random_filters_agree_with_filter_eval, times_and_numbers,
};
pub use fixture::{Desk, SplitMix, desks, put, schema};
pub use lifecycle::{
    a_closed_store_refuses, a_dropped_generation_stays_dropped, a_missing_collection_is_told,
    a_prepared_generation_is_not_served, creation_is_idempotent, generations_are_switched,
    schemas_are_compared,
};
pub use queries::{
    a_floor_is_inclusive, bm25_weighs_rare_terms, dbsf_fuses, fusion_follows_the_paper,
    legs_rank_alone, ties_are_not_cut,
};
pub use tenancy::{tenants_do_not_meet, wide_filters_stay_inside};
pub use writes::{
    deletes_go_by_sequence, documents_are_read_back, points_come_back_whole,
    stale_points_are_left_alone, unusable_vectors_write_nothing, vectors_are_replaced_whole,
};
