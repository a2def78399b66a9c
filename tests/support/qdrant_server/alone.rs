//! A server on a thread of its own, which can be killed and started again over the same data. Must not know the services.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;

use super::QdrantServer;

/// The port may be in use for a moment after it was free.
const PATIENCE: Duration = Duration::from_secs(20);

/// The thread that serves, when one does.
#[derive(Clone, Default)]
pub struct Alone(Arc<Mutex<Option<Serving>>>);

struct Serving {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Alone {
    /// Ends the thread: all its connections break, in the middle of calls too.
    pub fn kill(&self) {
        let serving = self.0.lock().expect("whole").take();
        let serving = serving.expect("a server that runs alone");
        let _ = serving.stop.send(());
        serving.thread.join().expect("ended");
    }

    /// Serves at this address, on any free port when that is 0; says where.
    pub fn start(&self, server: &QdrantServer, at: SocketAddr) -> SocketAddr {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let server = server.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            // What it still runs is dropped with the runtime.
            runtime.expect("a runtime").block_on(async {
                let incoming = bound(at).await;
                let address = incoming.local_addr().expect("bound");
                tell.send(address).expect("awaited");
                tokio::select! {
                    served = server.services(incoming) => served.expect("served"),
                    _ = stopped => {}
                }
            });
        });
        *self.0.lock().expect("whole") = Some(Serving { stop, thread });
        told.recv().expect("serving")
    }
}

async fn bound(at: SocketAddr) -> TcpIncoming {
    let started = Instant::now();
    loop {
        match TcpIncoming::bind(at) {
            Ok(incoming) => return incoming,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{at}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
