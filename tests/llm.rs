//! The chat adapter against a fake OpenAI-compatible server: well, slow, failing, nonsense, huge, never.

#[path = "support/chat_server.rs"]
mod chat_server;

use std::time::{Duration, Instant};

use chat_server::{ChatServer, Mood};
use ragbus::adapters::llm::{ChatConfig, ChatGenerator};
use ragbus::error::{Error, ErrorKind};
use ragbus::spi::{Generation, TextGenerator};
use serde_json::json;

struct Served {
    generator: ChatGenerator,
    server: ChatServer,
}

async fn served(mood: Mood) -> Served {
    let server = ChatServer::start(mood).await;
    let config = ChatConfig {
        base_url: format!("{}/", server.url()),
        model: "small".into(),
        api_key: "sesame".into(),
        allow_remote: false,
    };
    Served {
        generator: ChatGenerator::new(&config).await.expect("allowed"),
        server,
    }
}

fn generation(budget: Duration) -> Generation {
    Generation {
        instruction: "write".into(),
        input: "what is the canary-4711?".into(),
        max_tokens: 77,
        temperature: 0.0,
        deadline: Instant::now() + budget,
    }
}

async fn failure(mood: Mood) -> Error {
    let served = served(mood).await;
    let answer = served
        .generator
        .generate(generation(Duration::from_secs(20)))
        .await;
    let error = answer.expect_err("refused");
    assert!(!error.chain().contains("4711"), "{}", error.chain());
    error
}

#[tokio::test]
async fn a_good_answer_comes_back_raw_and_the_question_goes_out_whole() {
    let served = served(Mood::Never).await;
    served.server.now(Mood::Says(" \"Keys rotate.\" ".into()));
    let answer = served
        .generator
        .generate(generation(Duration::from_secs(20)))
        .await;
    assert_eq!(answer.expect("answered"), " \"Keys rotate.\" ");
    let asked = served.server.asked();
    let (headers, body) = &asked[0];
    assert_eq!(headers["authorization"], "Bearer sesame");
    assert_eq!(body["model"], "small");
    assert_eq!(body["max_tokens"], 77);
    assert_eq!(body["stream"], false);
    assert_eq!(
        body["messages"][0],
        json!({ "role": "system", "content": "write" })
    );
    assert_eq!(body["messages"][1]["content"], "what is the canary-4711?");
}

#[tokio::test]
async fn errors_are_told_by_status_and_asked_once() {
    for status in [400, 401, 404, 429, 500, 503] {
        let served = served(Mood::Status(status, "you asked about canary-4711")).await;
        let answer = served
            .generator
            .generate(generation(Duration::from_secs(20)))
            .await;
        let error = answer.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::DependencyFailed);
        assert!(
            error.message().contains(&status.to_string()),
            "{}",
            error.message()
        );
        assert!(!error.chain().contains("4711"));
        assert_eq!(served.server.asked().len(), 1);
    }
}

#[tokio::test]
async fn nonsense_is_an_error_and_quotes_nothing() {
    let nonsense: [&[u8]; 6] = [
        b"",
        b"canary-4711 is no JSON",
        b"{\"answer\":\"canary-4711\"}",
        b"\xff\xfe\xfd",
        b"{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}",
        b"{\"choices\":[{\"message\":{\"content\":4711}}]}",
    ];
    for body in nonsense {
        let error = failure(Mood::Raw(body.to_vec())).await;
        assert_eq!(error.kind(), ErrorKind::DependencyFailed, "{body:?}");
    }
    assert_eq!(
        failure(Mood::BreaksOff).await.kind(),
        ErrorKind::DependencyFailed
    );
}

#[tokio::test]
async fn an_answer_without_text_is_blank() {
    for body in [
        r#"{"choices":[]}"#,
        r#"{"choices":[{"message":{"content":null}}]}"#,
        r#"{"choices":[{"message":{}}],"usage":{}}"#,
    ] {
        let served = served(Mood::Raw(body.into())).await;
        let answer = served
            .generator
            .generate(generation(Duration::from_secs(20)))
            .await;
        assert_eq!(answer.expect("answered"), "");
    }
}

#[tokio::test]
async fn ten_megabytes_are_not_read_to_the_end() {
    let error = failure(Mood::Says("x".repeat(10_000_000))).await;
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn a_server_that_never_answers_ends_with_the_budget() {
    let served = served(Mood::Never).await;
    let started = Instant::now();
    let answer = served
        .generator
        .generate(generation(Duration::from_millis(80)))
        .await;
    assert_eq!(answer.expect_err("late").kind(), ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let error = failure(Mood::Redirects).await;
    assert!(error.message().contains("307"), "{}", error.message());
}

#[tokio::test]
async fn nobody_there_is_a_failed_dependency() {
    let config = ChatConfig {
        base_url: "http://user:secret@127.0.0.1:1/v1".into(),
        model: "small".into(),
        api_key: String::new(),
        allow_remote: false,
    };
    let generator = ChatGenerator::new(&config).await.expect("allowed");
    let error = generator
        .generate(generation(Duration::from_secs(20)))
        .await;
    let error = error.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::DependencyFailed);
    assert!(!error.chain().contains("secret"), "{}", error.chain());
}
