//! A server that answers each path with a prepared status and body, and remembers what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type Routes = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

/// Serves until it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    routes: Routes,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (routes, asked) = (Routes::default(), Arc::<Mutex<Vec<String>>>::default());
        let (its_routes, its_asked) = (Arc::clone(&routes), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&its_routes), Arc::clone(&its_asked)));
            }
        });
        Self { url, routes, asked, task }
    }

    /// Answers `METHOD path` (the path without its query); status 0 closes the connection without an answer.
    pub(crate) fn answer(&self, call: &str, status: u16, body: &str) {
        self.routes.lock().unwrap().insert(call.to_owned(), (status, body.to_owned()));
    }

    /// Requests so far: `METHOD path?query body`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, routes: Routes, asked: Arc<Mutex<Vec<String>>>) {
    stream.set_nodelay(true).unwrap();
    let Some((line, body)) = read_request(&mut stream).await else { return };
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    asked.lock().unwrap().push(format!("{method} {target} {body}").trim_end().to_owned());
    let path = target.split('?').next().unwrap_or("");
    let route = routes.lock().unwrap().get(&format!("{method} {path}")).cloned();
    let (status, body) = route.unwrap_or_else(|| (404, r#"{"errors":["Job x not found"]}"#.to_owned()));
    if status == 0 {
        return;
    }
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some((head.lines().next()?.to_owned(), body.to_owned()));
            }
        }
        match stream.read(&mut buffer).await.ok()? {
            0 => return None,
            count => text.push_str(std::str::from_utf8(&buffer[..count]).ok()?),
        }
    }
}
