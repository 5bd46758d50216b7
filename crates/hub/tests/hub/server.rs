//! A server on this machine that serves ranges as it should, and misbehaves where a test says so.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    /// How many came before it.
    pub number: usize,
}

/// What it is answered with.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Arc<[u8]>,
    /// The part of the body that is sent.
    pub part: (usize, usize),
    pub fault: Fault,
}

/// What goes wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    /// The connection ends after this number of bytes of the body.
    Cut(usize),
    /// It is reset after this number.
    Reset(usize),
    /// Nothing comes any more after this number.
    Hang(usize),
    /// Little comes at a time, with pauses in milliseconds.
    Drip(usize, u64),
}

type Answering = dyn Fn(&Asked) -> Reply + Send + Sync;

pub struct Server {
    address: SocketAddr,
    pub seen: Arc<Seen>,
    over: Arc<AtomicBool>,
}

/// What it was asked for, and what it sent.
#[derive(Default)]
pub struct Seen {
    pub asked: Mutex<Vec<Asked>>,
    /// Path, and the first and last byte of what was sent of the file.
    pub sent: Mutex<Vec<(String, usize, usize)>>,
    pub connections: AtomicUsize,
    at_once: AtomicUsize,
    pub most_at_once: AtomicUsize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The range that is asked for.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (begin, end) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((begin.parse().ok()?, end.parse::<usize>().ok()? + 1))
    }
}

impl Reply {
    pub fn status(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Arc::new([]), part: (0, 0), fault: Fault::Nothing }
    }

    pub fn text(text: &str) -> Reply {
        Reply { body: text.as_bytes().into(), part: (0, text.len()), ..Reply::status(200) }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    #[must_use]
    pub fn fault(self, fault: Fault) -> Reply {
        Reply { fault, ..self }
    }

    /// A file, by the rules of ranges.
    pub fn file(asked: &Asked, body: &Arc<[u8]>, etag: &str) -> Reply {
        let whole = Reply { body: body.clone(), part: (0, body.len()), ..Reply::status(200) }.with("etag", etag);
        match asked.range() {
            Some(_) if asked.header("if-range").is_some_and(|mark| mark != etag) => whole,
            Some((begin, _)) if begin >= body.len() => Reply::status(416),
            Some((begin, end)) => {
                let end = end.min(body.len());
                let range = format!("bytes {begin}-{}/{}", end - 1, body.len());
                Reply { status: 206, part: (begin, end), ..whole }.with("content-range", range)
            }
            None => whole,
        }
    }
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, over) = (Arc::<Seen>::default(), Arc::new(AtomicBool::new(false)));
        let answer: Arc<Answering> = Arc::new(answer);
        {
            let (seen, over) = (seen.clone(), over.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let (seen, over, answer) = (seen.clone(), over.clone(), answer.clone());
                    thread::spawn(move || serve(&stream, &seen, &over, &*answer));
                }
            });
        }
        Server { address, seen, over }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// How many requests there were whose path begins so.
    pub fn count(&self, prefix: &str) -> usize {
        self.seen.asked.lock().unwrap().iter().filter(|asked| asked.path.starts_with(prefix)).count()
    }

    /// Bytes of files that were sent.
    pub fn sent(&self) -> usize {
        self.seen.sent.lock().unwrap().iter().map(|(_, begin, end)| end - begin).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: &TcpStream, seen: &Seen, over: &AtomicBool, answer: &Answering) {
    seen.connections.fetch_add(1, Ordering::SeqCst);
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader, seen) {
        let reply = answer(&asked);
        let now = seen.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_at_once.fetch_max(now, Ordering::SeqCst);
        let goes_on = write(stream, &asked, &reply, seen, over);
        seen.at_once.fetch_sub(1, Ordering::SeqCst);
        if !goes_on {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead, seen: &Seen) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut all = seen.asked.lock().unwrap();
    let asked = Asked { method, path, headers, number: all.len() };
    all.push(asked.clone());
    Some(asked)
}

/// Whether the connection goes on.
fn write(mut stream: &TcpStream, asked: &Asked, reply: &Reply, seen: &Seen, over: &AtomicBool) -> bool {
    let (begin, end) = reply.part;
    let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding") {
        head += &format!("content-length: {}\r\n", end - begin);
    }
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if stream.write_all((head + "\r\n").as_bytes()).is_err() {
        return false;
    }
    if asked.method == "HEAD" {
        return true;
    }
    let body = &reply.body[begin..end];
    let most = match reply.fault {
        Fault::Cut(after) | Fault::Reset(after) | Fault::Hang(after) => after.min(body.len()),
        Fault::Nothing | Fault::Drip(..) => body.len(),
    };
    let (step, pause) = match reply.fault {
        Fault::Drip(bytes, pause) => (bytes, pause),
        _ => (1 << 14, 0),
    };
    let mut sent = 0;
    for piece in body[..most].chunks(step) {
        if stream.write_all(piece).is_err() {
            break;
        }
        sent += piece.len();
        thread::sleep(Duration::from_millis(pause));
    }
    seen.sent.lock().unwrap().push((asked.path.clone(), begin, begin + sent));
    match reply.fault {
        Fault::Cut(after) if after < body.len() => {
            let _ = stream.shutdown(Shutdown::Both);
            false
        }
        Fault::Reset(after) if after < body.len() => {
            #[cfg(unix)]
            rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
            false
        }
        Fault::Hang(after) if after < body.len() => {
            // Until the other side has had enough.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
            while !over.load(Ordering::Relaxed) {
                match stream.read(&mut [0]) {
                    Ok(0) => break,
                    Err(error)
                        if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
                    {
                        break;
                    }
                    _ => {}
                }
            }
            false
        }
        _ => sent == body.len(),
    }
}
