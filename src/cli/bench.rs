//! `ragbus bench retrieve`: transport overhead, open loop, so that a slow reply delays no later request.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;
use tokio::task::JoinSet;

use super::args::{BenchArgs, BenchCommand, BenchRetrieveArgs};
use super::ingest::{Report, carry_out};
use super::{bench_ingest, context, output};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::transport::nats::{Client, Reply};
use crate::wire::v1;

const TENANT: &str = "bench";
const CORPUS: &str = "retrieve";
const DOCUMENTS: usize = 200;
const WARM_UP: Duration = Duration::from_secs(2);

pub(super) async fn run(config: &Config, args: &BenchArgs) -> Result<ExitCode> {
    match &args.command {
        BenchCommand::Retrieve(args) => retrieve(config, args).await,
        BenchCommand::Ingest(args) => bench_ingest::run(config, args).await,
    }
}

/// Latency and overhead in microseconds.
struct Figures {
    latency: Histogram<u64>,
    overhead: Histogram<u64>,
    failed: u64,
}

async fn retrieve(config: &Config, args: &BenchRetrieveArgs) -> Result<ExitCode> {
    if !(args.rate > 0.0 && args.rate <= 100_000.0) {
        return Err(Error::invalid_field("--rate", "must be above 0"));
    }
    let tenant = context::tenant(TENANT)?;
    let (client, connection) = context::client(config, &tenant).await?;
    let mut report = Report::new(DOCUMENTS, false);
    let sources: Vec<_> = (0..DOCUMENTS)
        .map(|number| bench_ingest::source(CORPUS, number, bench_ingest::text(number as u64, 120)))
        .collect();
    carry_out(&client, sources, &mut report).await?;
    report.finish(Duration::ZERO)?;
    open_loop(&client, args.rate, WARM_UP).await?;
    let figures = open_loop(&client, args.rate, Duration::from_secs(args.seconds)).await?;
    connection.close().await;
    print(args, &figures)?;
    Ok(if figures.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Sends at fixed times whatever comes back; latency counts from the time a request was due.
async fn open_loop(client: &Client, rate: f64, during: Duration) -> Result<Figures> {
    // One microsecond to a minute.
    let histogram = || {
        Histogram::new_with_bounds(1, 60_000_000, 3)
            .map_err(|e| Error::internal("no histogram").caused_by(e))
    };
    let mut figures = Figures {
        latency: histogram()?,
        overhead: histogram()?,
        failed: 0,
    };
    let started = Instant::now();
    let total = (rate * during.as_secs_f64()).ceil() as u64;
    let mut asked = JoinSet::new();
    for number in 0..total {
        let due = started + Duration::from_secs_f64(number as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        let client = client.clone();
        asked.spawn(async move { ask(&client, number, due).await });
    }
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok((latency, overhead))) => {
                figures.latency.saturating_record(micros(latency));
                figures.overhead.saturating_record(micros(overhead));
            }
            Ok(Err(_)) | Err(_) => figures.failed += 1,
        }
    }
    Ok(figures)
}

async fn ask(client: &Client, number: u64, due: Instant) -> Result<(Duration, Duration)> {
    let request = v1::RetrieveRequest {
        corpus: CORPUS.to_owned(),
        query: bench_ingest::text(number, 8),
        ..v1::RetrieveRequest::default()
    };
    // The timer that woke this up has a grain of a millisecond: it is part of the reply time, not of the transport.
    let sent = Instant::now();
    match client.request("retrieve", &request, context::CALL).await? {
        Reply::Answer(v1::RetrieveResponse { stages, .. }) => {
            let (latency, asked) = (due.elapsed(), sent.elapsed());
            let inside: f64 = stages.iter().map(|s| s.duration_ms).sum();
            Ok((
                latency,
                asked.saturating_sub(Duration::from_secs_f64(inside / 1_000.0)),
            ))
        }
        Reply::Refused(error) => Err(context::refused(&error)),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn print(args: &BenchRetrieveArgs, figures: &Figures) -> Result<()> {
    let ms = |histogram: &Histogram<u64>, q: f64| histogram.value_at_quantile(q) as f64 / 1_000.0;
    let row =
        |histogram: &Histogram<u64>| [ms(histogram, 0.5), ms(histogram, 0.95), ms(histogram, 0.99)];
    let (latency, overhead) = (row(&figures.latency), row(&figures.overhead));
    let answered = figures.latency.len();
    if args.json {
        return output::json(&json!({
            "rate": args.rate, "answered": answered, "failed": figures.failed,
            "latencyMs": { "p50": latency[0], "p95": latency[1], "p99": latency[2] },
            "overheadMs": { "p50": overhead[0], "p95": overhead[1], "p99": overhead[2] },
        }));
    }
    let mut table = output::table(["ms", "p50", "p95", "p99"]);
    for (name, row) in [("reply time", latency), ("transport overhead", overhead)] {
        let cells = row.map(|value| format!("{value:.2}"));
        table.add_row([
            name.to_owned(),
            cells[0].clone(),
            cells[1].clone(),
            cells[2].clone(),
        ]);
    }
    output::line(&table.to_string())?;
    output::line(&format!(
        "{answered} answered, {} failed, at {} requests a second",
        figures.failed, args.rate
    ))
}
