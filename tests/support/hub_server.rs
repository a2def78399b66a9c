//! A model hub with one repository, as the public one answers: large files are redirected to another address and have
//! their SHA-256 as etag, small ones go through a relative redirect and have git's id, and a renamed repository is found.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;

/// The commit that every revision stands for.
pub const COMMIT: &str = "00112233445566778899aabbccddeeff00112233";
/// The repository's name before it was renamed.
pub const OLD_NAME: &str = "someone/before";

/// What goes wrong with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Altered,
    BreaksOff,
    Shorter,
    Longer,
    Status(u16),
    OddEtag,
    WeakEtag,
    Never,
}

/// A file of the repository; an etag of 64 digits is a large file's.
#[derive(Debug, Clone)]
pub struct Kept {
    pub path: &'static str,
    pub bytes: Vec<u8>,
    pub etag: String,
    pub fault: Option<Fault>,
}

/// The running server.
#[derive(Debug, Clone)]
pub struct HubServer {
    pub address: SocketAddr,
    repository: &'static str,
    files: Arc<Mutex<Vec<Kept>>>,
    asked: Arc<Mutex<Vec<(Uri, HeaderMap)>>>,
}

impl HubServer {
    /// Serves on a free port until the test ends.
    pub async fn start(repository: &'static str, files: Vec<Kept>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let server = Self {
            address: listener.local_addr().expect("bound"),
            repository,
            files: Arc::new(Mutex::new(files)),
            asked: Arc::default(),
        };
        let app = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    /// What is configured as the endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this goes wrong with the file.
    pub fn now(&self, path: &str, fault: Option<Fault>) {
        let mut files = self.files.lock().expect("no panic");
        let file = files.iter_mut().find(|file| file.path == path);
        file.expect("a file").fault = fault;
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<(Uri, HeaderMap)> {
        self.asked.lock().expect("no panic").clone()
    }

    fn file(&self, path: &str) -> Option<Kept> {
        let files = self.files.lock().expect("no panic");
        files.iter().find(|file| file.path == path).cloned()
    }

    fn is_silent(&self, path: &str) -> bool {
        let files = self.files.lock().expect("no panic");
        let mut silent = files.iter().filter(|file| file.fault == Some(Fault::Never));
        silent.any(|file| path.ends_with(file.path))
    }

    fn resolve(&self, path: &str, headers: &HeaderMap) -> Option<Response> {
        let renamed = format!("/{OLD_NAME}/resolve/");
        if let Some(rest) = path.strip_prefix(&renamed) {
            return Some(redirect(
                307,
                &format!("/{}/resolve/{rest}", self.repository),
            ));
        }
        if let Some(path) = path.strip_prefix("/api/resolve-cache/") {
            return Some(bytes(&self.file(path)?, headers));
        }
        if let Some(path) = path.strip_prefix("/large/") {
            return Some(bytes(&self.file(path)?, headers));
        }
        let inside = format!("/{}/resolve/", self.repository);
        let (_revision, path) = path.strip_prefix(&inside)?.split_once('/')?;
        let file = self.file(path)?;
        if let Some(Fault::Status(code)) = file.fault {
            return Some(reply(code).body(Body::empty()).expect("a reply"));
        }
        if file.etag.len() != 64 {
            return Some(redirect(307, &format!("/api/resolve-cache/{path}")));
        }
        let location = format!("{}/large/{path}", self.url());
        let linked = reply(302)
            .header(header::LOCATION, location)
            .header("x-repo-commit", COMMIT)
            .header("x-linked-etag", etag(&file))
            .header("x-linked-size", file.bytes.len());
        Some(linked.body(Body::empty()).expect("a reply"))
    }
}

async fn answer(State(server): State<HubServer>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().to_owned();
    let request = (uri, headers.clone());
    server.asked.lock().expect("no panic").push(request);
    if server.is_silent(&path) {
        return std::future::pending().await;
    }
    let missing = || reply(404).body(Body::empty()).expect("a reply");
    server.resolve(&path, &headers).unwrap_or_else(missing)
}

fn reply(status: u16) -> axum::http::response::Builder {
    Response::builder().status(status)
}

fn redirect(status: u16, location: &str) -> Response {
    let to = reply(status).header(header::LOCATION, location);
    to.body(Body::empty()).expect("a reply")
}

fn etag(file: &Kept) -> String {
    match file.fault {
        Some(Fault::OddEtag) => "\"../../outside\"".to_owned(),
        Some(Fault::WeakEtag) => format!("W/\"{}\"", file.etag),
        _ => format!("\"{}\"", file.etag),
    }
}

/// The asked range: one byte to learn the size, or all from a start.
fn bytes(file: &Kept, headers: &HeaderMap) -> Response {
    let range = headers.get(header::RANGE).expect("a range");
    let range = range.to_str().expect("text").replace("bytes=", "");
    let (start, end) = range.split_once('-').expect("a range");
    let start: usize = start.parse().expect("a number");
    let total = file.bytes.len();
    let probe = !end.is_empty();
    let end = end.parse().unwrap_or(total - 1);
    let mut body = file.bytes[start..=end].to_vec();
    let head = reply(StatusCode::PARTIAL_CONTENT.as_u16())
        .header("x-repo-commit", COMMIT)
        .header(header::ETAG, etag(file))
        .header(
            header::CONTENT_RANGE,
            format!("bytes {start}-{end}/{total}"),
        );
    let body = match file.fault.filter(|_| !probe) {
        Some(Fault::Altered) => {
            body[total / 2] ^= 1;
            Body::from(body)
        }
        Some(Fault::Shorter) => Body::from(body[..total / 2].to_vec()),
        Some(Fault::Longer) => Body::from([body, vec![0]].concat()),
        Some(Fault::BreaksOff) => {
            let half = body[..total / 2].to_vec();
            let parts = [Ok(half), Err(std::io::Error::other("as told"))];
            Body::from_stream(futures::stream::iter(parts))
        }
        _ => Body::from(body),
    };
    head.body(body).expect("a reply")
}
