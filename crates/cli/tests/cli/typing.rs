//! `candor` in a pseudo-terminal: what is typed ahead, completed, changed and asked for; how words break; signs of life.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    program::candor,
    slow,
    terminal::{ENDLESS, PATIENCE, SHORT, Terminal, chat, plain, walk},
};

/// Waits until that many more letters are printed.
fn wait_for_more(terminal: &Terminal, letters: usize) {
    let (started, before) = (Instant::now(), terminal.plain().len());
    while terminal.plain().len() < before + letters {
        assert!(started.elapsed() < PATIENCE, "{}", terminal.plain());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_typed_ahead_waits_for_the_prompt() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, ENDLESS);
    terminal.press("Hello\r");
    terminal.expect("Hello");
    wait_for_more(&terminal, 40);
    terminal.press("/stats");
    wait_for_more(&terminal, 40);
    let answered = terminal.plain().len();
    terminal.press("\x03");
    terminal.expect("(stopped)");
    let text = terminal.plain();
    assert!(!text[..answered].ends_with("/stats") && !text.contains("^C"), "{text:?}");
    let answer = &text[text.find("Hello").unwrap()..text.find("(stopped)").unwrap()];
    assert!(!answer.contains("/stats"), "{answer:?}");
    // It is in the line already.
    terminal.expect("/stats");
    terminal.press("\r");
    terminal.expect("answers: 1;");
    terminal.expect("> ");
    terminal.press("/exit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn lines_typed_ahead_are_entered_in_turn() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, ENDLESS);
    terminal.press("Hello\r");
    wait_for_more(&terminal, 60);
    terminal.press("/set predict 3\r/stats\r\x04");
    thread::sleep(Duration::from_millis(200));
    terminal.press("\x03");
    terminal.expect("(stopped)");
    terminal.expect("(/set)");
    terminal.expect("answers: 1;");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn the_terminal_is_as_it_was_afterwards() {
    let home = tempfile::tempdir().unwrap();
    for keys in ["/exit\r", "\x04"] {
        let script = format!("chat {SHORT}; echo \"ended with $?\"; stty -a");
        let mut terminal = Terminal::script(home.path(), &script, &[("CANDOR_CONFIG", "")]);
        terminal.expect("> ");
        terminal.press(keys);
        terminal.expect("ended with 0");
        terminal.expect("-extproc");
        let text = terminal.plain();
        let modes = &text[text.rfind("speed ").unwrap()..];
        for mode in [" icrnl", " icanon", " echo ", "-noflsh"] {
            assert!(modes.contains(mode), "{mode}: {modes}");
        }
        assert_eq!(terminal.end(), 0);
    }
}

#[test]
fn tab_completes_arguments_and_leaves_the_prompt() {
    let home = tempfile::tempdir().unwrap();
    let saved = home.path().join("more.json");
    fs::write(&saved, r#"{"candor":"0.1.0","model":"x","messages":[]}"#).unwrap();
    let mut terminal = chat(&home, SHORT);
    terminal.press("/set te\t");
    terminal.expect("/set temp ");
    terminal.press("0.5\r");
    terminal.expect("(/set)");
    terminal.expect("> ");
    terminal.press(&format!("/load {}/mo\t", home.path().display()));
    terminal.expect("more.json");
    terminal.press("\r");
    terminal.expect("loaded 0 messages from ");
    terminal.expect("> ");
    // Several: the line keeps its prompt, and nothing is said where there is nothing.
    terminal.press("/set top\t");
    terminal.expect("top-nsigma");
    terminal.press("\x03");
    terminal.expect("(Ctrl-D or /exit leaves)");
    terminal.expect("> ");
    terminal.press("hello\t");
    thread::sleep(Duration::from_millis(300));
    terminal.press("\x03");
    terminal.expect("(Ctrl-D or /exit leaves)");
    terminal.expect("> ");
    let text = terminal.plain();
    assert!(!text.contains("| ") && !text.contains("NO RECORDS"), "{text:?}");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn what_is_typed_has_the_terminals_own_colour() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, SHORT);
    terminal.press("/stats\r");
    terminal.expect("answers: 0;");
    let printed = terminal.printed.lock().unwrap().clone();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    // White, and the bright colours that a light background swallows.
    for pale in ["\x1b[37m", "\x1b[97m", "\x1b[92m", "\x1b[96m"] {
        assert!(!printed.contains(pale), "{printed:?}");
    }
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn the_last_message_is_changed_in_the_editor() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("saved.json");
    let mut terminal = chat(&home, &format!("{SHORT} -v"));
    terminal.press("Hello\r");
    terminal.expect("decode: 5 tokens");
    terminal.expect("> ");
    terminal.press("/edit\r");
    terminal.expect("/edit Hello");
    terminal.press(" there\r");
    terminal.expect("decode: 5 tokens");
    terminal.expect("> ");
    terminal.press(&format!("/save {}\r", file.display()));
    terminal.expect("saved 2 messages to ");
    terminal.expect("> ");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
    assert_eq!(candor_testing::json(&file)["messages"][0]["content"], "Hello there");
}

#[test]
fn before_a_file_is_written_over_it_asks() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("mine.txt");
    fs::write(&file, "mine").unwrap();
    let mut terminal = chat(&home, SHORT);
    for (answer, said, kept) in [("n", "not saved", true), ("", "not saved", true), ("y", "saved 0 messages", false)] {
        terminal.press(&format!("/save {}\r", file.display()));
        terminal.expect("[y/N] ");
        terminal.press(&format!("{answer}\r"));
        terminal.expect(said);
        terminal.expect("> ");
        assert_eq!(fs::read_to_string(&file).unwrap() == "mine", kept, "{answer}");
    }
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn lines_entered_without_a_history_are_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, SHORT);
    for (line, said) in [("/set nohistory", "no longer kept"), ("/set top-k 3", "(/set)"), ("/set history", "are kept")]
    {
        terminal.press(&format!("{line}\r"));
        terminal.expect(said);
        terminal.expect("> ");
    }
    terminal.press("/set top-k 4\r");
    terminal.expect("(/set)");
    terminal.expect("> ");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
    let file = walk(home.path()).into_iter().find(|path| path.ends_with("history.txt")).unwrap();
    let kept = fs::read_to_string(file).unwrap();
    assert!(kept.contains("top-k 4") && kept.contains("nohistory") && !kept.contains("top-k 3"), "{kept}");
}

#[test]
fn words_do_not_break_at_the_margin() {
    let home = tempfile::tempdir().unwrap();
    let args = ["run", "--temp", "0", "-t", "1", "-n", "60", "--ignore-eos", "-p"];
    let prompt = "Tell me a story";
    let whole = candor(args.iter().chain(&[prompt])).text();
    let line = format!("{} '{prompt}'", args.join(" "));
    let mut terminal = Terminal::of_columns(30, home.path(), &line, &[("CANDOR_CONFIG", "")]);
    terminal.expect(whole.split_whitespace().next().unwrap());
    let printed = terminal.printed.clone();
    assert_eq!(terminal.end(), 0);
    // What is printed last comes a little after the end.
    thread::sleep(Duration::from_millis(300));
    let text = plain(&printed.lock().unwrap());
    let answer = text.split("MODEL.gguf)").nth(1).unwrap();
    assert!(answer.lines().all(|line| line.chars().count() <= 30), "{answer:?}");
    assert!(answer.lines().count() > whole.lines().count() + 2, "{answer:?}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(answer), words(&whole));
    // The list of settings, too.
    let mut terminal = Terminal::of_columns(70, home.path(), &format!("chat {SHORT}"), &[("CANDOR_CONFIG", "")]);
    terminal.expect("> ");
    terminal.press("/set\r");
    terminal.expect("mirostat-ent");
    terminal.expect("> ");
    let text = terminal.plain();
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("predict")).collect();
    assert!(rows.iter().all(|row| row.trim_end().chars().count() <= 70 || row.contains("penalties;")), "{rows:?}");
    assert!(rows.iter().any(|row| row.starts_with(&" ".repeat(38))), "{rows:?}");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn what_takes_long_shows_that_it_lives() {
    let home = tempfile::tempdir().unwrap();
    let (model, text) = (slow::model(home.path()), slow::file(home.path(), 4000));
    for (args, sign) in [
        (format!("run {model} --raw -f {text} -t 1 -ub 256 -n 1"), " of 4001 tokens, "),
        (format!("verify {model} -n 20"), "verifying, "),
        (format!("perplexity {model} -f {text} -c 2000 -t 1"), "computing, "),
        (format!("logits {model} -f {text} -t 1"), "reading, "),
        (format!("trace {model} -f {text} -t 1 --stats --names l_out"), "computing, "),
    ] {
        for (flag, shown) in [("", true), ("--progress never", false)] {
            let mut terminal = Terminal::start(home.path(), &format!("{args} {flag}"), &[("CANDOR_CONFIG", "")]);
            if shown {
                terminal.expect(sign);
                terminal.press("\x03");
                assert_eq!(terminal.end(), 130, "{args}");
            } else {
                thread::sleep(Duration::from_millis(1500));
                let plain = terminal.plain();
                assert!(!plain.contains(sign), "{args}: {plain:?}");
                terminal.press("\x03");
                let _ = terminal.end();
            }
        }
    }
}
