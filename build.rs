//! Generates the wire types from `schemas/` with protox (no protoc) and their proto3-JSON with pbjson.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use prost_build::Config;
use protox::prost::Message;

const FILES: &[&str] = &[
    "ragbus/v1/admin.proto",
    "ragbus/v1/audit.proto",
    "ragbus/v1/retention.proto",
    "ragbus/v1/common.proto",
    "ragbus/v1/feedback.proto",
    "ragbus/v1/ingest.proto",
    "ragbus/v1/retrieve.proto",
    "ragbus/v1/catalog.proto",
    "ragbus/v1/stats.proto",
    "ragbus/v1/tracking.proto",
];

/// Ours, because the standard's `Z` and our microseconds are written by hand.
const TIMESTAMP: (&str, &str) = (".google.protobuf.Timestamp", "crate::wire::WireTimestamp");

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=schemas");
    println!("cargo:rerun-if-changed=migrations");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(FILES, ["schemas"])?;
    let encoded = descriptors.encode_to_vec();
    Config::new()
        .compile_well_known_types()
        .extern_path(TIMESTAMP.0, TIMESTAMP.1)
        .extern_path(".google.protobuf", "::pbjson_types")
        .btree_map([".ragbus.v1.IngestResult.timings"])
        .out_dir(&out)
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .out_dir(&out)
        .extern_path(TIMESTAMP.0, TIMESTAMP.1)
        .extern_path(".google.protobuf", "::pbjson_types")
        .btree_map([".ragbus.v1.IngestResult.timings"])
        .emit_fields()
        .build(&[".ragbus.v1"])?;
    Ok(())
}
