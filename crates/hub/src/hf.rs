//! Hugging Face: its repositories, and the cache that `huggingface_hub` and others share.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use ureq::http::Method;

use crate::{
    Pulled,
    disk::{self, at},
    error::Error,
    fetch::{self, Wanted, Watch},
    http::{Http, Request, Token},
    name::{Name, Part, is_inner, is_word},
    select,
    settings::Settings,
    url::escape,
};

/// What a file is at a commit.
struct Meta {
    etag: String,
    /// What its server compares it with, if it serves the file itself.
    validator: Option<String>,
    bytes: u64,
    url: String,
}

/// The folder of a repository in a cache.
pub fn folder(hub: &Path, repo: &str) -> PathBuf {
    hub.join(format!("models--{}", repo.replace('/', "--")))
}

/// The file of a model that is in the cache.
pub fn find(settings: &Settings, repo: &str, revision: &str, part: &Part) -> Option<PathBuf> {
    let folder = folder(settings.hub.as_deref()?, repo);
    for snapshot in snapshots(&folder, revision) {
        let files = disk::files(&snapshot);
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        // Where the cache has one file of several, the hub may have the usual one: offline it is meant.
        let chosen = select::model(&paths, part).map(|files| files[0]);
        if let Some(path) = chosen.filter(|path| settings.offline || select::is_certain(path, part)) {
            return Some(snapshot.join(path));
        }
    }
    None
}

/// The snapshots of a repository: the one that a name stands for, then the others, the newest first.
pub fn snapshots(folder: &Path, revision: &str) -> Vec<PathBuf> {
    let all = folder.join("snapshots");
    let commit = fs::read_to_string(folder.join("refs").join(revision)).ok();
    let named = commit.map(|commit| commit.trim().to_owned()).filter(|commit| is_word(commit));
    let named = named.unwrap_or_else(|| revision.to_owned());
    let mut found: Vec<(bool, SystemTime, PathBuf)> = disk::entries(&all)
        .unwrap_or_default()
        .into_iter()
        .map(|(name, path)| {
            let changed = fs::metadata(&path).and_then(|folder| folder.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            (name == named, changed, path)
        })
        .collect();
    found.sort_by_key(|(is_named, changed, _)| std::cmp::Reverse((*is_named, *changed)));
    found.into_iter().map(|(_, _, path)| path).collect()
}

/// Fetches what a name means into the cache.
pub fn pull(settings: &Settings, repo: &str, revision: &str, part: &Part, watch: Watch<'_>) -> Result<Pulled, Error> {
    let name = Name::Hf { repo: repo.to_owned(), revision: revision.to_owned(), part: part.clone() }.to_string();
    let hub = settings.hub.as_deref().ok_or(Error::NoHome)?;
    let http = Http::new(settings);
    let hub_of = Repository {
        http: &http,
        endpoint: &settings.endpoint,
        repo,
        name: &name,
        token: settings.token.as_deref().and_then(|secret| Token::of(&settings.endpoint, secret)),
        page: format!("{}/{repo}", settings.endpoint),
    };
    let (commit, all) = http.persist(&|| watch.is_over(), || hub_of.files(revision))?;
    let paths: Vec<&str> = all.iter().map(String::as_str).collect();
    let Some(mut chosen) = select::model(&paths, part) else { return Err(no_file(name, part, &paths)) };
    let projector = select::projector(&paths, chosen[0]).filter(|_| !matches!(part, Part::File(_)));
    chosen.extend(projector);
    let folder = folder(hub, repo);
    let blobs = folder.join("blobs");
    let locks = hub.join(".locks").join(folder.file_name().unwrap_or_default());
    let mut wanted = Vec::new();
    let mut links = Vec::new();
    for path in chosen {
        let Meta { etag, validator, bytes, url } = http.persist(&|| watch.is_over(), || hub_of.meta(&commit, path))?;
        let sha256 = is_sha256(&etag).then(|| etag.clone());
        links.push((path, blobs.join(&etag)));
        wanted.push(Wanted {
            model: name.clone(),
            name: path.to_owned(),
            url,
            token: hub_of.token.clone(),
            bytes,
            // What is no large file is served with the same mark as its question was answered with.
            validator: validator.filter(|_| sha256.is_none()),
            sha256,
            target: blobs.join(&etag),
            seal: None,
            partials: blobs.clone(),
            lock: locks.join(format!("{etag}.lock")),
            stem: etag,
        });
    }
    // `huggingface_hub` takes a repository without this folder for a broken one.
    disk::make_folder(&folder.join("snapshots"))?;
    let fetched = fetch::all(&http, settings, &wanted, watch)?;
    let snapshot = folder.join("snapshots").join(&commit);
    let mut files = Vec::new();
    for (path, blob) in links {
        let link = snapshot.join(path);
        make_link(&blob, &link)?;
        files.push(link);
    }
    if revision != commit {
        // Last: what it leads to is whole.
        let reference = folder.join("refs").join(revision);
        if fs::read_to_string(&reference).ok().as_deref() != Some(&commit) {
            disk::write_whole(&reference, &commit)?;
        }
    }
    Ok(Pulled { model: files[0].clone(), files, fetched })
}

/// A repository to be asked.
struct Repository<'a> {
    http: &'a Http,
    endpoint: &'a str,
    repo: &'a str,
    name: &'a str,
    token: Option<Token>,
    page: String,
}

impl Repository<'_> {
    fn request<'r>(&'r self, method: Method, url: &'r str) -> Request<'r> {
        Request {
            method,
            token: self.token.as_ref(),
            follow: false,
            page: Some(&self.page),
            ..Request::get(url, self.name)
        }
    }

    /// The commit that a name stands for now, and the paths of its files.
    fn files(&self, revision: &str) -> Result<(String, Vec<String>), Error> {
        let url = format!("{}/api/models/{}/revision/{}", self.endpoint, self.repo, escape(revision));
        let answer = self.http.send(&self.request(Method::GET, &url))?;
        let host = crate::url::host(&answer.url);
        let value = answer.json()?;
        let wrong = |problem: &str| Error::Answer { host: host.clone(), problem: problem.to_owned() };
        let commit = value["sha"].as_str().filter(|sha| is_word(sha)).ok_or_else(|| wrong("it names no commit"))?;
        let files = value["siblings"].as_array().ok_or_else(|| wrong("it lists no files"))?;
        let paths = files.iter().filter_map(|file| file["rfilename"].as_str());
        // What would lie elsewhere is not looked at.
        Ok((commit.to_owned(), paths.filter(|path| is_inner(path)).map(str::to_owned).collect()))
    }

    /// What a file is at a commit.
    fn meta(&self, commit: &str, path: &str) -> Result<Meta, Error> {
        let url = format!("{}/{}/resolve/{commit}/{}", self.endpoint, self.repo, escape(path));
        let answer = self.http.send(&self.request(Method::HEAD, &url))?;
        let wrong = |problem: String| Error::Answer { host: crate::url::host(&answer.url), problem };
        if let Some(other) = answer.header("x-repo-commit").filter(|other| *other != commit) {
            return Err(wrong(format!("asked for commit {commit} of {path}, got {other}")));
        }
        let etag = answer.header("x-linked-etag").or_else(|| answer.header("etag")).unwrap_or_default();
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        if !is_word(etag) {
            return Err(wrong(format!("it does not say what {path} is (no ETag)")));
        }
        let bytes = answer.number("x-linked-size").or_else(|| answer.number("content-length"));
        let bytes = bytes.ok_or_else(|| wrong(format!("it does not say how long {path} is")))?;
        Ok(Meta { etag: etag.to_owned(), validator: answer.validator(), bytes, url })
    }
}

/// Whether an ETag is the SHA-256 of a file, as that of large ones is.
fn is_sha256(etag: &str) -> bool {
    etag.len() == 64 && etag.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn no_file(name: String, part: &Part, paths: &[&str]) -> Error {
    let mut there: Vec<String> =
        paths.iter().filter(|path| select::is_first(path)).map(|path| (*path).to_owned()).collect();
    there.sort();
    let problem = match part {
        Part::Usual => "there is no model in GGUF".to_owned(),
        Part::Quant(quant) => format!("there is no whole model in {quant}"),
        Part::File(file) => format!("there is no file {file}, or not all of its parts"),
    };
    Error::NoFile { name, problem, there }
}

/// Has a path lead to a blob: by a relative link, as `huggingface_hub` makes it, or where links are not allowed by a second name.
fn make_link(blob: &Path, link: &Path) -> Result<(), Error> {
    if fs::canonicalize(link).is_ok_and(|there| fs::canonicalize(blob).is_ok_and(|blob| there == blob)) {
        return Ok(());
    }
    // Without links the file itself lies there.
    if fs::symlink_metadata(link).is_ok_and(|file| file.is_file()) && disk::length(link) == disk::length(blob) {
        return Ok(());
    }
    let folder = link.parent().unwrap_or(link);
    disk::make_folder(folder)?;
    let beside = folder.join(format!(".{}", disk::unique()));
    let to = relative(blob, folder);
    let made =
        symlink(&to, &beside).or_else(|_| fs::hard_link(blob, &beside)).or_else(|_| fs::copy(blob, &beside).map(drop));
    let done = made.map_err(at(link)).and_then(|()| disk::rename(&beside, link));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

/// The way from a folder to a file, both below one that they share.
fn relative(file: &Path, folder: &Path) -> PathBuf {
    let shared = file.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Path::new(".."));
    up.chain(file.components().skip(shared).map(|part| Path::new(part.as_os_str()))).collect()
}

#[cfg(unix)]
fn symlink(to: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(to, link)
}

#[cfg(windows)]
fn symlink(to: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(to, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative() {
        let way = relative(Path::new("/h/m/blobs/e"), Path::new("/h/m/snapshots/c/sub"));
        assert_eq!(way, Path::new("../../../blobs/e"));
    }
}
