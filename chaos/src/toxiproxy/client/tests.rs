//! Servers that are no Toxiproxy.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A client of a server that answers its only connection with `head`, then with `filler` until nobody listens.
async fn client_of(head: String, filler: &'static [u8]) -> ToxiproxyClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await;
        let mut sent = stream.write_all(head.as_bytes()).await;
        while sent.is_ok() && !filler.is_empty() {
            sent = stream.write_all(filler).await;
        }
    });
    // A loaded machine may take a while to send what is too long.
    ToxiproxyClient::new(format!("http://{address}")).with_request_limit(Duration::from_secs(60))
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let location = format!("http://{}/proxies", elsewhere.local_addr().expect("bound"));
    let head =
        format!("HTTP/1.1 307 Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let client = client_of(head, b"").await.with_request_limit(REQUEST_LIMIT);
    let asked = client.list();
    tokio::select! {
        refused = asked => assert_eq!(refused.expect_err("refused").status(), Some(307)),
        _ = elsewhere.accept() => panic!("the host that it names was called"),
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_kept() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n{".to_owned();
    let refused = client_of(head, &[b' '; 1 << 16]).await.list().await.expect_err("refused");
    assert!(matches!(refused, ClientError::TooLong { cap_bytes: ANSWER_CAP_BYTES, .. }), "{refused}");
}

#[tokio::test]
async fn a_long_page_does_not_bury_the_sentence() {
    let page = "x".repeat(100_000);
    let head = format!("HTTP/1.1 500 No\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}", page.len());
    let refused = client_of(head, b"").await.list().await.expect_err("refused").to_string();
    assert!(refused.starts_with("GET /proxies was answered 500: xxx") && refused.len() < 2000, "{}", refused.len());
}
