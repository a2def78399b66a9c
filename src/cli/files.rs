//! Files, folders and JSON lines to ingest jobs.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use pbjson_types::Struct;
use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::wire::{Encoding, decode, v1};

/// One thing to ingest: a job, or why there is none.
#[derive(Debug)]
pub(super) struct Source {
    /// The document's id, or where it would have come from.
    pub name: String,
    /// The job.
    pub job: Result<v1::IngestRequest>,
}

/// What all jobs of a call share.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The corpus.
    pub corpus: String,
    /// Metadata laid under each document's own.
    pub metadata: Option<Struct>,
}

/// The sources of a path: a file, every file of a folder, or the lines of standard input.
///
/// # Errors
/// `InvalidField` when the path doesn't exist.
pub(super) fn sources(path: &Path, target: &Target) -> Result<Vec<Source>> {
    if path == Path::new("-") {
        let lines = std::io::stdin().lock().lines().enumerate();
        return Ok(lines
            .filter(|(_, line)| line.as_ref().map_or(true, |text| !text.trim().is_empty()))
            .map(|(number, line)| json_line(number + 1, line, target))
            .collect());
    }
    if path.is_file() {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        return Ok(vec![file(path.to_owned(), name, target)]);
    }
    if path.is_dir() {
        return Ok(folder(path, target));
    }
    Err(Error::invalid_field(
        "PATH",
        format!("{} doesn't exist", path.display()),
    ))
}

/// Files in name order; hidden files and folders are passed over.
fn folder(root: &Path, target: &Target) -> Vec<Source> {
    let visible = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || !entry.file_name().to_string_lossy().starts_with('.')
    };
    let entries = WalkDir::new(root)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(visible);
    entries
        .filter_map(|entry| match entry {
            Ok(entry) if entry.file_type().is_file() => {
                let inner = entry.path().strip_prefix(root).unwrap_or(entry.path());
                let name = inner.components().map(|c| c.as_os_str().to_string_lossy());
                let name = name.collect::<Vec<_>>().join("/");
                Some(file(entry.path().to_owned(), name, target))
            }
            Ok(_) => None,
            Err(e) => Some(Source {
                name: e
                    .path()
                    .map(|p| p.display().to_string())
                    .unwrap_or_default(),
                job: Err(Error::invalid_field("PATH", "can't be read").caused_by(e)),
            }),
        })
        .collect()
}

fn file(path: PathBuf, name: String, target: &Target) -> Source {
    let job = std::fs::read(&path)
        .map_err(|e| Error::invalid_field("PATH", "can't be read").caused_by(e))
        .map(|data| {
            put(
                target,
                v1::PutDocument {
                    document_id: name.clone(),
                    body: Some(v1::put_document::Body::Data(data)),
                    media_type: media_type(&name).to_owned(),
                    file_name: name.rsplit('/').next().unwrap_or_default().to_owned(),
                    metadata: target.metadata.clone(),
                    ..v1::PutDocument::default()
                },
            )
        });
    Source { name, job }
}

/// Formats whose text is not the file's bytes are named, so that the service can take or refuse them.
fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "html" | "htm" => "text/html",
        "pdf" => "application/pdf",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "odt" => "application/vnd.oasis.opendocument.text",
        _ => "",
    }
}

fn put(target: &Target, put: v1::PutDocument) -> v1::IngestRequest {
    v1::IngestRequest {
        corpus: target.corpus.clone(),
        operation: Some(v1::ingest_request::Operation::PutDocument(put)),
    }
}

fn json_line(number: usize, line: std::io::Result<String>, target: &Target) -> Source {
    let place = format!("line {number}");
    let line = match line {
        Ok(line) => line,
        Err(e) => {
            let error = Error::invalid_field("-", "is no UTF-8").caused_by(e);
            return Source {
                name: place,
                job: Err(error),
            };
        }
    };
    match json_job(&line, target) {
        Ok((name, job)) => Source { name, job: Ok(job) },
        Err(error) => Source {
            name: place,
            job: Err(error),
        },
    }
}

/// A line is a `PutDocument`, or a `PutChunks` when it has `chunks`.
fn json_job(line: &str, target: &Target) -> Result<(String, v1::IngestRequest)> {
    let value: serde_json::Value = serde_json::from_str(line)
        .map_err(|e| Error::invalid_field("-", "is no JSON").caused_by(e))?;
    if value.get("chunks").is_some() {
        let mut chunks: v1::PutChunks = decode(line.as_bytes(), Encoding::Json)?;
        chunks.metadata = merged(target.metadata.as_ref(), chunks.metadata.take());
        let name = chunks.document_id.clone();
        let operation = Some(v1::ingest_request::Operation::PutChunks(chunks));
        return Ok((
            name,
            v1::IngestRequest {
                corpus: target.corpus.clone(),
                operation,
            },
        ));
    }
    let mut document: v1::PutDocument = decode(line.as_bytes(), Encoding::Json)?;
    document.metadata = merged(target.metadata.as_ref(), document.metadata.take());
    Ok((document.document_id.clone(), put(target, document)))
}

fn merged(of_all: Option<&Struct>, own: Option<Struct>) -> Option<Struct> {
    match (of_all, own) {
        (None, own) => own,
        (Some(of_all), None) => Some(of_all.clone()),
        (Some(of_all), Some(own)) => {
            let mut fields = of_all.fields.clone();
            fields.extend(own.fields);
            Some(Struct { fields })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            corpus: "c".into(),
            metadata: None,
        }
    }

    #[test]
    fn ids_are_paths_below_the_folder() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("a/.hidden")).expect("a folder");
        std::fs::write(root.path().join("a/b.txt"), "x").expect("a file");
        std::fs::write(root.path().join("a/.hidden/c.txt"), "x").expect("a file");
        std::fs::write(root.path().join("z.md"), "x").expect("a file");
        let names: Vec<String> = sources(root.path(), &target())
            .expect("a folder")
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert_eq!(names, ["a/b.txt", "z.md"]);
    }

    #[test]
    fn a_line_is_a_document_or_chunks() {
        let (name, job) =
            json_job(r#"{"documentId":"d","text":"x"}"#, &target()).expect("a document");
        assert_eq!(name, "d");
        assert!(matches!(
            job.operation,
            Some(v1::ingest_request::Operation::PutDocument(_))
        ));
        let (_, job) = json_job(
            r#"{"documentId":"d","chunks":[{"content":"x"}]}"#,
            &target(),
        )
        .expect("chunks");
        assert!(matches!(
            job.operation,
            Some(v1::ingest_request::Operation::PutChunks(_))
        ));
        assert!(json_job(r#"{"documentId":"d","txt":"x"}"#, &target()).is_err());
    }
}
