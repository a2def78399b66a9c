//! Traces go through: the caller's context is the parent of the worker's span, which is the parent of what it publishes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::harness::*;

/// Keeps what it is sent.
#[derive(Clone, Default)]
struct Collector {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.traces
            .lock()
            .expect("whole")
            .push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics
            .lock()
            .expect("whole")
            .push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    /// Listens, and says where.
    fn start(&self) -> String {
        let incoming = TcpIncoming::bind(free_address()).expect("bound");
        let address = incoming.local_addr().expect("bound");
        let services = Server::builder()
            .add_service(TraceServiceServer::new(self.clone()))
            .add_service(MetricsServiceServer::new(self.clone()));
        tokio::spawn(services.serve_with_incoming(incoming));
        format!("http://{address}")
    }

    fn spans(&self) -> Vec<Span> {
        let traces = self.traces.lock().expect("whole");
        let scopes = traces
            .iter()
            .flat_map(|t| &t.resource_spans)
            .flat_map(|r| &r.scope_spans);
        scopes.flat_map(|s| s.spans.clone()).collect()
    }

    fn metric_names(&self) -> Vec<String> {
        let metrics = self.metrics.lock().expect("whole");
        let scopes = metrics
            .iter()
            .flat_map(|m| &m.resource_metrics)
            .flat_map(|r| &r.scope_metrics);
        scopes
            .flat_map(|s| &s.metrics)
            .map(|m| m.name.clone())
            .collect()
    }
}

impl Collector {
    /// Metrics arrived, and nothing that callers wrote.
    fn check_contents(&self) {
        let names = self.metric_names();
        for name in [
            "ragbus.ingest.jobs",
            "ragbus.requests",
            "ragbus.model.texts",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
        let told = format!(
            "{:?}{:?}",
            self.spans(),
            self.metrics.lock().expect("whole")
        );
        assert!(!told.contains("canary"), "S6: no text in spans or metrics");
        assert!(
            !told.contains("\"t1\"") && !told.contains("rag.retrieve.t1"),
            "no tenant in names"
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The one span of a trace, which must hang under the caller's.
fn child_of(spans: &[Span], trace: &str, parent: &str) -> String {
    let own: Vec<&Span> = spans.iter().filter(|s| hex(&s.trace_id) == trace).collect();
    let direct: Vec<&&Span> = own
        .iter()
        .filter(|s| hex(&s.parent_span_id) == parent)
        .collect();
    assert_eq!(direct.len(), 1, "one span under the caller's in {own:?}");
    hex(&direct[0].span_id)
}

/// What was published names the worker's span as its parent.
fn follows(published: &Answer, trace: &str, span: &str) {
    let context = published.header("traceparent");
    assert!(
        context.starts_with(&format!("00-{trace}-{span}")),
        "{context}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_reach_from_the_callers_header_to_what_the_worker_publishes() {
    let collector = Collector::default();
    let endpoint = collector.start();
    let service = Service::with(|setup| setup.env("RAGBUS__TELEMETRY__OTLP_ENDPOINT", &endpoint));
    let Service {
        mut worker,
        nats: _nats,
        t1,
        dir: _dir,
    } = service.await;
    let (job_trace, job_parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let (ask_trace, ask_parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let job_context = format!("00-{job_trace}-{job_parent}-01");
    let ask_context = format!("00-{ask_trace}-{ask_parent}-01");
    let job = put("c", "d", "the canary of traces sings");
    let sent = [
        ("Traceparent", job_context.as_str()),
        ("tracestate", "vendor=value"),
    ];
    let (id, _) = t1.publish_with(&sent, &job).await;
    assert_eq!(t1.result(&id).await["status"], "INDEXED");
    let result = t1.result_message(&id).await.expect("kept");
    let question = json!({ "corpus": "c", "query": "what does the canary of traces do" });
    let reply = t1
        .ask_with("retrieve", &[("traceparent", &ask_context)], &question)
        .await;
    // The last spans and metrics are sent at the end.
    worker.terminate();
    assert_eq!(
        worker.ended(Duration::from_secs(30)).await.code(),
        Some(0),
        "{}",
        worker.log()
    );
    let spans = collector.spans();
    let job_span = child_of(&spans, job_trace, job_parent);
    let ask_span = child_of(&spans, ask_trace, ask_parent);
    follows(&result, job_trace, &job_span);
    assert_eq!(result.header("tracestate"), "vendor=value");
    follows(&reply, ask_trace, &ask_span);
    assert!(
        worker.log().contains(job_trace),
        "logs carry the trace's id"
    );
    collector.check_contents();
}
