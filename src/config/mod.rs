//! Configuration: built-in defaults < file < environment < flags, checked whole before anything is opened.
//!
//! Layer 4. `default.toml` is the manual. Must not know how a part is built from its section.

mod checks;
mod limit_checks;
mod load;
mod secret;
mod sections;
mod tracking_checks;

pub use load::{Overrides, load};
pub use secret::Secret;
pub use sections::{
    Config, CorrectiveMode, ExpansionStrategy, FusionKind, Guarantee, LegName, LimitSection,
    LimitsSection, QdrantSection, QuantizationKind, RoleName, StoreKind, TenancyKind, TickSource,
};
