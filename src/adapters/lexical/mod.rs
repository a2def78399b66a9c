//! The lexical leg's analysis: words and codes to weighted terms, for BM25 with the store's own inverse document frequencies.
//!
//! Layer 3, over the port. Must not know stores. Pure and synchronous.
//!
//! ```text
//! text ── chunks between white space ── parts (codes.rs) ── stems (stems.rs) ── terms ── weights (bm25.rs)
//!                              └─ the whole code ────────────────────────┘
//! ```
//!
//! No word is left out: a question of nothing but common words finds the text that holds them, and rarity is the store's to
//! weigh. A code is found whole and in its parts, however it is punctuated.

mod bm25;
mod codes;
mod stems;
mod words;

pub use bm25::Bm25Encoder;
