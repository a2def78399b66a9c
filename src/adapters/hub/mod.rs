//! Models from a hub: which ones are known by name, and how their files get here whole.
//!
//! Layer 3, over no port: only the command line uses it. Must not know what a model's files mean or how they are run.
//!
//! ```text
//! recipe.rs  known/*.toml   which files of which repository, and the model.toml that goes beside them
//! client.rs  patience.rs    what the hub states about a file, and its bytes
//! check.rs                  whether the bytes are what the hub and the recipe state
//! stage.rs                  a folder inside models.dir where all of it happens, then one rename
//! ```

mod check;
mod client;
mod patience;
mod recipe;
mod stage;

pub use client::{Hub, HubAccess, Stated};
pub use recipe::{Recipe, RemoteFile};
pub use stage::Stage;
