//! A Qdrant server for tests: real gRPC from the client crate's own server traits, exact in memory, with fault switches.
//!
//! Where it could be kinder than a server it is not: conditions are judged when a write is applied, unapplied writes wait
//! in the log, a replaced point keeps old vectors that its successor lacks, equal scores stand in any order, word
//! statistics are of all tenants unless a corpus is given, and a root filter reaches every prefetch.

mod alone;
mod collections;
mod engine;
mod faults;
mod filter;
mod points;
mod rank;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use qdrant_client::qdrant as qd;
use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::{Qdrant, QdrantServer as HealthServer};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use alone::Alone;
pub use engine::Collection;
use engine::Engine;
use faults::Faults;
pub use faults::{Effect, Fault};

/// What the server answers a health check with.
const VERSION: &str = "1.19.0";

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send + 'a>>;

/// The running server. Clones are the same one; it serves until the test ends.
#[derive(Clone)]
pub struct QdrantServer {
    address: SocketAddr,
    engine: Arc<Mutex<Engine>>,
    faults: Arc<Faults>,
    key: Option<&'static str>,
    version: &'static str,
    alone: Alone,
}

impl QdrantServer {
    /// Serves on a free port.
    pub fn start() -> Self {
        Self::serve(None, VERSION)
    }

    /// The same for those who know the key.
    pub fn with_key(key: &'static str) -> Self {
        Self::serve(Some(key), VERSION)
    }

    /// The same, of another version.
    pub fn of_version(version: &'static str) -> Self {
        Self::serve(None, version)
    }

    /// The same on a thread of its own: it can be killed and comes back with its data.
    pub fn start_alone() -> Self {
        let mut server = Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), None, VERSION);
        server.address = server.alone.start(&server, server.address);
        server
    }

    /// As `kill -9` would: connections break, nobody listens; what is written is kept. For one started alone.
    pub fn kill(&self) {
        self.alone.kill();
    }

    /// Again at the same address, after a kill.
    pub fn restart(&self) {
        self.alone.start(self, self.address);
    }

    fn serve(key: Option<&'static str>, version: &'static str) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let incoming = TcpIncoming::bind(any).expect("bound");
        let server = Self::at(incoming.local_addr().expect("bound"), key, version);
        tokio::spawn(server.clone().services(incoming));
        server
    }

    fn at(address: SocketAddr, key: Option<&'static str>, version: &'static str) -> Self {
        Self {
            address,
            engine: Arc::default(),
            faults: Arc::default(),
            key,
            version,
            alone: Alone::default(),
        }
    }

    async fn services(self, incoming: TcpIncoming) -> Result<(), tonic::transport::Error> {
        // A server takes any size; tonic alone would stop at 4 MiB.
        let points = PointsServer::new(self.clone()).max_decoding_message_size(usize::MAX);
        let services = Server::builder()
            .add_service(points)
            .add_service(CollectionsServer::new(self.clone()))
            .add_service(HealthServer::new(self));
        let incoming = incoming.with_nodelay(Some(true));
        services.serve_with_incoming(incoming).await
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next call of a method meets this fault. Methods are named like `points/upsert`.
    pub fn then(&self, method: &'static str, fault: Fault) {
        self.faults.push(method, fault);
    }

    /// From now on every call fails as if nobody listened, or works again.
    pub fn set_down(&self, down: bool) {
        self.faults.set_down(down);
    }

    /// Lets held calls go on.
    pub fn release(&self) {
        self.faults.release();
    }

    /// How many calls of a method arrived.
    pub fn calls(&self, method: &'static str) -> usize {
        self.faults.calls(method)
    }

    /// Waits until so many calls of a method arrived.
    pub async fn until_called(&self, method: &'static str, calls: usize) {
        while self.calls(method) < calls {
            tokio::task::yield_now().await;
        }
    }

    /// Its collections, to look at and to tamper with.
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().expect("whole")
    }

    async fn answer<Q: Send, R>(
        &self,
        method: &'static str,
        request: Request<Q>,
        handler: fn(&mut Engine, Q, Effect) -> Result<R, Status>,
    ) -> Result<Response<R>, Status> {
        let given = request.metadata().get("api-key");
        if self
            .key
            .is_some_and(|key| given.is_none_or(|given| given != key))
        {
            return Err(Status::unauthenticated("Invalid API key or JWT"));
        }
        let effect = self.faults.meet(method).await?;
        handler(&mut self.engine(), request.into_inner(), effect).map(Response::new)
    }
}

#[tonic::async_trait]
impl Qdrant for QdrantServer {
    async fn health_check(
        &self,
        _: Request<qd::HealthCheckRequest>,
    ) -> Result<Response<qd::HealthCheckReply>, Status> {
        self.faults.meet("health_check").await?;
        Ok(Response::new(qd::HealthCheckReply {
            title: "qdrant test server".into(),
            version: self.version.into(),
            commit: None,
        }))
    }
}

/// The methods of a service: those with a handler work, the others say that they don't.
macro_rules! methods {
    ($service:literal $($name:ident($request:ty) -> $response:ty $(= $handler:path)?;)*) => {$(
        fn $name<'life0, 'async_trait>(
            &'life0 self,
            request: tonic::Request<$request>,
        ) -> super::Answer<'async_trait, $response>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            methods!(@ self, request, concat!($service, "/", stringify!($name)) $(, $handler)?)
        }
    )*};
    (@ $server:ident, $request:ident, $name:expr, $handler:path) => {
        Box::pin($server.answer($name, $request, $handler))
    };
    (@ $server:ident, $request:ident, $name:expr) => {{
        drop($request);
        Box::pin(std::future::ready(Err(tonic::Status::unimplemented($name))))
    }};
}
use methods;
