//! Reads judged queries and documents: BEIR folders and TREC judgements. The only reader of files here.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::super::args_eval::{Body, Chunks, JudgedArgs};
use super::super::files::Source;
use crate::error::{Error, Result};
use crate::evaluation::{self, Document, Judgements, Question};
use crate::wire::v1::{self, ingest_request::Operation, put_document};

/// Judged queries of a folder.
#[derive(Debug)]
pub(in crate::cli) struct Judged {
    /// Those to ask, in the file's order.
    pub queries: Vec<Question>,
    /// All judgements.
    pub judgements: Judgements,
    /// Judged queries that `queries.jsonl` doesn't have.
    pub unknown: usize,
}

impl Judged {
    /// Ids in the file's order.
    pub(in crate::cli) fn ids(&self) -> Vec<String> {
        self.queries.iter().map(|query| query.id.clone()).collect()
    }

    /// Leaves the queries that a calibration with this share and seed doesn't learn from.
    pub(super) fn keep_held_out(&mut self, share: f64, seed: u64) {
        let (_, kept) = evaluation::split_queries(self.ids(), share, seed);
        self.queries.retain(|query| kept.contains(&query.id));
    }
}

/// Reads the queries of a folder that have a judgement.
///
/// # Errors
/// `InvalidField` naming file and line; when no judged query is there.
pub(in crate::cli) fn judged(folder: &Path, args: &JudgedArgs) -> Result<Judged> {
    let path = match &args.qrels {
        Some(path) => path.clone(),
        None => qrels_of(folder, &args.split)?,
    };
    let judgements = judgements(&path)?;
    let mut queries: Vec<Question> =
        lines(&folder.join("queries.jsonl"), evaluation::question)?.collect::<Result<_>>()?;
    let mut seen = HashSet::new();
    if let Some(twice) = queries.iter().find(|query| !seen.insert(&query.id)) {
        let problem = format!("has {:?} twice", twice.id);
        return Err(Error::invalid_field(
            folder.join("queries.jsonl").display().to_string(),
            problem,
        ));
    }
    queries.retain(|query| judgements.of(&query.id).is_some());
    if queries.is_empty() {
        let problem = format!(
            "judges no query of {}",
            folder.join("queries.jsonl").display()
        );
        return Err(Error::invalid_field(path.display().to_string(), problem));
    }
    let unknown = judgements.queries().count().saturating_sub(queries.len());
    queries.truncate(args.queries.map_or(usize::MAX, |n| n as usize));
    Ok(Judged {
        queries,
        judgements,
        unknown,
    })
}

/// Reads a file of judgements.
///
/// # Errors
/// `InvalidField` naming file and line.
pub(in crate::cli) fn judgements(path: &Path) -> Result<Judgements> {
    Judgements::parse(&path.display().to_string(), &text(path)?)
}

/// Reads a file.
///
/// # Errors
/// `InvalidField` naming it.
pub(in crate::cli) fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| unreadable(path, e))
}

fn unreadable(path: &Path, e: std::io::Error) -> Error {
    Error::invalid_field(path.display().to_string(), "can't be read").caused_by(e)
}

/// `qrels.tsv`, or the split under `qrels/`.
fn qrels_of(folder: &Path, split: &str) -> Result<PathBuf> {
    let candidates = [
        folder.join("qrels").join(format!("{split}.tsv")),
        folder.join("qrels.tsv"),
    ];
    candidates
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or_else(|| {
            let problem = format!(
                "has no qrels/{split}.tsv and no qrels.tsv: choose a --split, or give --qrels"
            );
            Error::invalid_field(folder.display().to_string(), problem)
        })
}

/// The documents of a folder as ingest jobs, and how many there are. The file is read twice: once to see that every line is
/// good before the first one is put, once as jobs go out, so that a large corpus never stands in memory.
///
/// # Errors
/// `InvalidField` naming file and line.
pub(super) fn documents(
    folder: &Path,
    corpus: &str,
    body: Body,
    chunks: Chunks,
) -> Result<(usize, impl Iterator<Item = Source>)> {
    let path = folder.join("corpus.jsonl");
    let mut count = 0;
    for document in lines(&path, evaluation::document)? {
        document?;
        count += 1;
    }
    let job = move |document: Result<Document>| match document {
        Ok(document) => source(corpus, document, body, chunks),
        Err(error) => Source {
            name: "corpus.jsonl".to_owned(),
            job: Err(error),
        },
    };
    Ok((count, lines(&path, evaluation::document)?.map(job)))
}

fn source(corpus: &str, document: Document, body: Body, chunks: Chunks) -> Source {
    let text = match body {
        Body::TitleText if !document.title.trim().is_empty() => {
            format!("{}\n\n{}", document.title, document.text)
        }
        _ => document.text,
    };
    let operation = match chunks {
        Chunks::Service => Operation::PutDocument(v1::PutDocument {
            document_id: document.id.clone(),
            body: Some(put_document::Body::Text(text)),
            ..v1::PutDocument::default()
        }),
        // A blank chunk is refused; a document of none is an empty one.
        Chunks::Whole => Operation::PutChunks(v1::PutChunks {
            document_id: document.id.clone(),
            chunks: Some(text)
                .filter(|text| !text.trim().is_empty())
                .map(|content| v1::ChunkInput {
                    content,
                    metadata: None,
                })
                .into_iter()
                .collect(),
            ..v1::PutChunks::default()
        }),
    };
    let job = v1::IngestRequest {
        corpus: corpus.to_owned(),
        operation: Some(operation),
    };
    Source {
        name: document.id,
        job: Ok(job),
    }
}

/// Lines that aren't blank, read as they are asked for.
fn lines<T>(
    path: &Path,
    read: fn(&str, usize, &str) -> Result<T>,
) -> Result<impl Iterator<Item = Result<T>> + use<T>> {
    let file = std::fs::File::open(path).map_err(|e| unreadable(path, e))?;
    let path = path.to_owned();
    let name = path.display().to_string();
    let parsed = move |(number, line): (usize, std::io::Result<String>)| match line {
        Err(e) => Some(Err(unreadable(&path, e))),
        Ok(line) if line.trim().is_empty() => None,
        Ok(line) => Some(read(&name, number, &line)),
    };
    Ok((1..).zip(BufReader::new(file).lines()).filter_map(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> JudgedArgs {
        JudgedArgs {
            qrels: None,
            split: "test".into(),
            queries: None,
            relevant_from: 1,
            seed: 42,
        }
    }

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        let write =
            |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
        write(
            "corpus.jsonl",
            "{\"_id\":\"a\",\"title\":\"T\",\"text\":\"x\"}\n\n{\"_id\":\"b\",\"text\":\" \"}\n",
        );
        write(
            "queries.jsonl",
            "{\"_id\":\"q1\",\"text\":\"one\"}\n{\"_id\":\"q2\",\"text\":\"two\"}\n",
        );
        std::fs::create_dir(dir.path().join("qrels")).expect("a folder");
        write(
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\nq2\ta\t1\nq9\ta\t1\n",
        );
        dir
    }

    #[test]
    fn judged_queries_of_a_split_are_read() {
        let dir = folder();
        let read = judged(dir.path(), &args()).expect("a folder");
        let ids: Vec<&str> = read.queries.iter().map(|q| q.id.as_str()).collect();
        assert_eq!((ids, read.unknown), (vec!["q2"], 1));
        let error = judged(
            dir.path(),
            &JudgedArgs {
                split: "dev".into(),
                ..args()
            },
        )
        .unwrap_err();
        assert!(error.message().contains("has no qrels/dev.tsv"), "{error}");
        std::fs::write(dir.path().join("other"), "q1 0 a 1\n").expect("written");
        let other = JudgedArgs {
            qrels: Some(dir.path().join("other")),
            ..args()
        };
        assert_eq!(
            judged(dir.path(), &other).expect("TREC").queries[0].id,
            "q1"
        );
        std::fs::write(dir.path().join("other"), "q7 0 a 1\n").expect("written");
        assert!(
            judged(dir.path(), &other)
                .unwrap_err()
                .message()
                .contains("judges no query")
        );
    }

    #[test]
    fn held_out_queries_are_those_a_calibration_has_not_seen() {
        let dir = folder();
        let read = || {
            let mut read = judged(dir.path(), &args()).expect("a folder");
            let more = (0..9).map(|n| Question {
                id: format!("x{n}"),
                text: "x".into(),
            });
            read.queries.extend(more);
            read
        };
        let (learnt, _) = evaluation::split_queries(read().ids(), 0.5, 42);
        let mut kept = read();
        kept.keep_held_out(0.5, 42);
        assert_eq!((learnt.len(), kept.queries.len()), (5, 5));
        assert!(kept.ids().iter().all(|id| !learnt.contains(id)));
    }

    #[test]
    fn a_query_that_is_there_twice_is_told() {
        let dir = folder();
        let twice = "{\"_id\":\"q2\",\"text\":\"two\"}\n".repeat(2);
        std::fs::write(dir.path().join("queries.jsonl"), twice).expect("written");
        let error = judged(dir.path(), &args()).unwrap_err();
        assert!(error.message().contains("has \"q2\" twice"), "{error}");
    }

    #[test]
    fn documents_become_jobs() {
        let dir = folder();
        let read = |body, chunks| documents(dir.path(), "c", body, chunks);
        let (count, jobs) = read(Body::TitleText, Chunks::Whole).expect("documents");
        let chunks: Vec<Vec<String>> = jobs
            .map(|source| match source.job.expect("a job").operation {
                Some(Operation::PutChunks(put)) => {
                    put.chunks.into_iter().map(|c| c.content).collect()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            (count, chunks),
            (2, vec![vec!["T\n\nx".to_owned()], vec![]])
        );
        let (_, mut jobs) = read(Body::Text, Chunks::Service).expect("documents");
        let first = jobs.next().expect("a document").job.expect("a job");
        assert!(matches!(first.operation, Some(Operation::PutDocument(_))));
        std::fs::write(
            dir.path().join("corpus.jsonl"),
            "{\"_id\":\"a\",\"text\":\"x\"}\n{}\n",
        )
        .expect("written");
        let error = read(Body::Text, Chunks::Whole).err().expect("a bad line");
        assert!(error.message().contains("corpus.jsonl line 2"), "{error}");
    }
}
