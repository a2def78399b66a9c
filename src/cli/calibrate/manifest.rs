//! Writes a calibration into a model's `model.toml`, leaving the rest of the file as it stands.

use std::io::Write;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use crate::error::{Error, Result};
use crate::model::Calibration;

/// A calibration with how it was got.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Its values and its id.
    pub calibration: Calibration,
    /// How it was got, in a sentence.
    pub method: String,
    /// Queries it was got from.
    pub judged_queries: usize,
    /// Relevant pairs it was got from.
    pub positives: usize,
    /// Irrelevant pairs it was got from.
    pub negatives: usize,
    /// The day (RFC 3339).
    pub made: String,
}

/// The manifest with the entry in `[calibration]`, or in `[calibration.corpora."tenant/corpus"]` for a corpus.
///
/// # Errors
/// `InvalidField` on `models.dir` when the manifest is no TOML, or has something else in that place.
pub(super) fn with_calibration(
    manifest: &str,
    entry: &Entry,
    corpus: Option<&str>,
) -> Result<String> {
    let mut document: DocumentMut = manifest.parse().map_err(|e| {
        Error::invalid_field("models.dir", "has a model.toml that is no TOML").caused_by(e)
    })?;
    let calibration = table(document.as_table_mut(), "calibration", corpus.is_some())?;
    match corpus {
        None => fill(calibration, entry),
        Some(corpus) => {
            let corpora = table(calibration, "corpora", true)?;
            fill(table(corpora, corpus, false)?, entry);
        }
    }
    Ok(document.to_string())
}

/// The table under a key, made when it isn't there; an implicit one has no header of its own.
fn table<'a>(
    parent: &'a mut dyn TableLike,
    key: &str,
    implicit: bool,
) -> Result<&'a mut dyn TableLike> {
    let item = parent.entry(key).or_insert_with(|| {
        let mut made = Table::new();
        made.set_implicit(implicit);
        Item::Table(made)
    });
    item.as_table_like_mut().ok_or_else(|| {
        Error::invalid_field(
            "models.dir",
            format!("has a model.toml whose {key:?} is no table"),
        )
    })
}

fn fill(table: &mut dyn TableLike, entry: &Entry) {
    let count = |n: usize| value(i64::try_from(n).unwrap_or(i64::MAX));
    let calibration = &entry.calibration;
    table.insert("id", value(&calibration.id));
    table.insert("scale", number(calibration.scale));
    table.insert("shift", number(calibration.shift));
    table.insert("correct", number(calibration.correct));
    table.insert("incorrect", number(calibration.incorrect));
    table.insert("method", value(&entry.method));
    table.insert("judged_queries", count(entry.judged_queries));
    table.insert("positives", count(entry.positives));
    table.insert("negatives", count(entry.negatives));
    table.insert("made", value(&entry.made));
}

/// The shortest decimal that reads back as the same 32-bit number.
fn number(number: f32) -> Item {
    value(
        number
            .to_string()
            .parse::<f64>()
            .unwrap_or_else(|_| f64::from(number)),
    )
}

/// Replaces a file in one step: a worker that starts meanwhile reads the old or the new one.
///
/// # Errors
/// `InvalidField` on `models.dir`.
pub(super) fn replace(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension(format!("toml.{}", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&beside)?;
        file.set_permissions(std::fs::metadata(path)?.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|e| {
        // What is left of the attempt is of no use; that it can't be removed either adds nothing.
        let _ = std::fs::remove_file(&beside);
        let problem = format!("has a {} that can't be written", path.display());
        Error::invalid_field("models.dir", problem).caused_by(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "# Made by hand.\nid = \"m\"   # the folder's name\ntask = \"cross-encoder\"\n\n\
        [cross_encoder]\nactivation = \"none\" # logits\n";

    fn entry(id: &str) -> Entry {
        let calibration = Calibration {
            id: id.into(),
            scale: 0.1,
            shift: -1.25,
            correct: 0.8,
            incorrect: 0.05,
        };
        Entry {
            calibration,
            method: "by a test".into(),
            judged_queries: 100,
            positives: 60,
            negatives: 70,
            made: "2026-11-29".into(),
        }
    }

    fn read(text: &str) -> toml::Table {
        text.parse().expect("TOML")
    }

    #[test]
    fn the_rest_of_the_file_stays() {
        let written = with_calibration(MANIFEST, &entry("a"), None).expect("written");
        assert!(written.starts_with(MANIFEST), "{written}");
        let calibration = &read(&written)["calibration"];
        assert_eq!(calibration["id"].as_str(), Some("a"));
        assert_eq!(calibration["scale"].as_float().map(|f| f as f32), Some(0.1));
        assert!(
            written.contains("scale = 0.1\n") && written.contains("incorrect = 0.05\n"),
            "{written}"
        );
        assert_eq!(calibration["negatives"].as_integer(), Some(70));
    }

    #[test]
    fn a_second_calibration_replaces_the_first_and_corpora_stand_beside_it() {
        let first = with_calibration(MANIFEST, &entry("a"), Some("acme/docs")).expect("written");
        assert!(
            first.contains("\n[calibration.corpora.\"acme/docs\"]\n"),
            "{first}"
        );
        assert!(!first.contains("\n[calibration]\n"), "{first}");
        let second = with_calibration(&first, &entry("b"), None).expect("written");
        let third = with_calibration(&second, &entry("c"), Some("acme/docs")).expect("written");
        let fourth = with_calibration(&third, &entry("d"), Some("acme/other")).expect("written");
        let calibration = read(&fourth)["calibration"].clone();
        assert_eq!(calibration["id"].as_str(), Some("b"));
        assert_eq!(
            calibration["corpora"]["acme/docs"]["id"].as_str(),
            Some("c")
        );
        assert_eq!(
            calibration["corpora"]["acme/other"]["id"].as_str(),
            Some("d")
        );
        assert!(fourth.starts_with(MANIFEST), "{fourth}");
    }

    #[test]
    fn what_cannot_be_changed_is_told() {
        let problem = |text: &str| {
            with_calibration(text, &entry("a"), None)
                .unwrap_err()
                .chain()
        };
        assert!(problem("id = ").contains("no TOML"));
        assert!(problem("calibration = 3").contains("is no table"));
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("model.toml");
        assert!(
            replace(&path, "x = 1").is_err(),
            "there is no manifest to replace"
        );
        std::fs::write(&path, "x = 0").expect("written");
        replace(&path, "x = 1").expect("replaced");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "x = 1");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1);
    }
}
