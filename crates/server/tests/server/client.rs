//! A small client: one request a connection.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of each event, whose name is its type.
    pub fn named(&self) -> Vec<Value> {
        let names: Vec<&str> = self.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        let events = self.events();
        assert_eq!(names, events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>());
        events
    }

    /// The JSON of each line.
    pub fn lines(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(self.head.to_lowercase().contains("content-type: application/x-ndjson"), "{}", self.head);
        self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The JSON of each event, without the mark of the end.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// Sends a request and leaves the connection open.
pub fn begin(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // The server may refuse it before the end of a long body.
    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
    stream
}

/// Sends a request and reads the reply.
pub fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    finish(begin(address, method, path, headers, body))
}

/// Reads a reply to its end.
pub fn finish(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    Reply { status, head: head.to_owned(), body: if chunked { unchunked(body) } else { body.to_owned() } }
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    whole
}

/// Posts JSON.
pub fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    send(address, "POST", path, &[("Content-Type", "application/json")], &body.to_string())
}

/// Gets a path.
pub fn get(address: SocketAddr, path: &str) -> Reply {
    send(address, "GET", path, &[], "")
}
