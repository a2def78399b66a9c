//! What every implementation of a port must do, as async functions over the port. They panic on a violation.
//! Must not know an implementation.

pub mod vector_store;
