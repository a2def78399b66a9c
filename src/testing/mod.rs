//! In-memory ports and contract suites, behind the feature `testing`. Must not know an adapter.
