//! A grammar as rules over bytes: what is repeated or in brackets has become rules of its own.

use std::collections::HashMap;

use regex_syntax::utf8::Utf8Sequences;

use super::text::{self, Node};
use crate::Error;

/// One step of an alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A byte of this range.
    Byte(u8, u8),
    /// What a rule stands for.
    Rule(u32),
    /// The alternative is over.
    End,
}

/// The rules of a grammar.
#[derive(Debug)]
pub struct Rules {
    /// The steps of all alternatives, each with its end.
    steps: Vec<Step>,
    /// Where the alternatives of each rule begin.
    alternatives: Vec<Vec<u32>>,
}

/// Most steps of a grammar.
const MOST_STEPS: usize = 500_000;

/// The rule that a grammar begins with.
const ROOT: &str = "root";

impl Rules {
    /// Those of a text.
    ///
    /// # Errors
    /// [`Error::Gbnf`] with the line.
    pub fn parse(text: &str) -> Result<Rules, Error> {
        let parsed = text::parse(text)?;
        let wrong = |line, what: String| Err(Error::Gbnf { line, what });
        let Some(root) = parsed.iter().position(|rule| rule.name == ROOT) else {
            return wrong(text.lines().count().max(1), format!("the grammar has no rule {ROOT}"));
        };
        let mut names = HashMap::new();
        for (number, rule) in parsed.iter().enumerate() {
            if let Some(first) = names.insert(rule.name.as_str(), number as u32) {
                let first = parsed[first as usize].line;
                return wrong(rule.line, format!("rule {} is there already, in line {first}", rule.name));
            }
        }
        let mut builder = Builder {
            names: &names,
            rules: vec![Vec::new(); parsed.len()],
            owners: (0..parsed.len()).collect(),
            classes: HashMap::new(),
            steps: 0,
            owner: 0,
            line: 0,
        };
        for (number, rule) in parsed.iter().enumerate() {
            (builder.owner, builder.line) = (number, rule.line);
            builder.rules[number] = builder.alternatives(&rule.node)?;
        }
        let (owners, rules) = (builder.owners, builder.rules);
        if let Some(number) = left_recursive(&rules) {
            let rule = &parsed[owners[number]];
            return wrong(rule.line, format!("rule {} begins with itself (left recursion)", rule.name));
        }
        Ok(Rules::of(rules, root))
    }

    /// The rules one after the other; the last stands for the root.
    fn of(mut rules: Vec<Alternatives>, root: usize) -> Rules {
        rules.push(vec![vec![Step::Rule(root as u32)]]);
        let (mut steps, mut alternatives) = (Vec::new(), Vec::new());
        for rule in rules {
            let mut starts = Vec::new();
            for alternative in rule {
                starts.push(steps.len() as u32);
                steps.extend(alternative);
                steps.push(Step::End);
            }
            alternatives.push(starts);
        }
        Rules { steps, alternatives }
    }

    /// The step at a position.
    pub fn step(&self, position: u32) -> Step {
        self.steps[position as usize]
    }

    /// Where the alternatives of a rule begin.
    pub fn alternatives(&self, rule: u32) -> &[u32] {
        &self.alternatives[rule as usize]
    }

    /// Where a text begins.
    pub fn start(&self) -> u32 {
        self.alternatives.last().and_then(|starts| starts.first()).copied().unwrap_or_default()
    }
}

/// The alternatives of a rule.
type Alternatives = Vec<Vec<Step>>;

struct Builder<'a> {
    names: &'a HashMap<&'a str, u32>,
    rules: Vec<Alternatives>,
    /// The rule of the text that each rule came from.
    owners: Vec<usize>,
    classes: HashMap<Vec<(char, char)>, u32>,
    steps: usize,
    /// The rule of the text that is being read, and its line.
    owner: usize,
    line: usize,
}

impl Builder<'_> {
    /// A new rule; its number.
    fn add(&mut self, alternatives: Alternatives) -> u32 {
        self.rules.push(alternatives);
        self.owners.push(self.owner);
        (self.rules.len() - 1) as u32
    }

    fn count(&mut self, steps: usize) -> Result<(), Error> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > MOST_STEPS {
            true => Err(Error::Gbnf { line: self.line, what: format!("the grammar has more than {MOST_STEPS} steps") }),
            false => Ok(()),
        }
    }

    fn alternatives(&mut self, node: &Node) -> Result<Alternatives, Error> {
        let Node::Choice(all) = node else { return Ok(vec![self.steps(node)?]) };
        all.iter().map(|node| self.steps(node)).collect()
    }

    fn steps(&mut self, node: &Node) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        self.append(node, &mut steps)?;
        Ok(steps)
    }

    fn append(&mut self, node: &Node, steps: &mut Vec<Step>) -> Result<(), Error> {
        match node {
            Node::Text(text) => {
                self.count(text.len())?;
                steps.extend(text.bytes().map(|byte| Step::Byte(byte, byte)));
            }
            Node::Class(ranges) => {
                self.count(1)?;
                steps.push(self.class(ranges));
            }
            Node::Rule(name, line) => match self.names.get(name.as_str()) {
                Some(&rule) => {
                    self.count(1)?;
                    steps.push(Step::Rule(rule));
                }
                None => return Err(Error::Gbnf { line: *line, what: format!("there is no rule {name}") }),
            },
            Node::Sequence(all) => {
                for node in all {
                    self.append(node, steps)?;
                }
            }
            Node::Choice(_) => {
                let alternatives = self.alternatives(node)?;
                self.count(1)?;
                steps.push(Step::Rule(self.add(alternatives)));
            }
            Node::Repeat(node, least, most) => self.repeat(node, *least, *most, steps)?,
        }
        Ok(())
    }

    /// `x{2,4}` as `x x o`, where `o ::= x p |` and `p ::= x |`; without a limit `o ::= x o |`.
    fn repeat(&mut self, node: &Node, least: usize, most: Option<usize>, steps: &mut Vec<Step>) -> Result<(), Error> {
        let all = self.steps(node)?;
        let one = match all[..] {
            [] => return Ok(()),
            [one] => one,
            _ => Step::Rule(self.add(vec![all])),
        };
        let more = most.map_or(1, |most| most - least);
        self.count(least + 3 * more)?;
        steps.extend(std::iter::repeat_n(one, least));
        let mut last = None;
        for _ in 0..more {
            let rule = self.add(Vec::new());
            let next = if most.is_none() { Some(rule) } else { last };
            let further = [one].into_iter().chain(next.map(Step::Rule)).collect();
            self.rules[rule as usize] = vec![further, Vec::new()];
            last = Some(rule);
        }
        steps.extend(last.map(Step::Rule));
        Ok(())
    }

    /// A class as a byte, or as a rule of the bytes of its letters.
    fn class(&mut self, ranges: &[(char, char)]) -> Step {
        if let [(first, last)] = ranges
            && last.is_ascii()
        {
            return Step::Byte(*first as u8, *last as u8);
        }
        if let Some(&rule) = self.classes.get(ranges) {
            return Step::Rule(rule);
        }
        let sequences = ranges.iter().flat_map(|&(first, last)| Utf8Sequences::new(first, last));
        let bytes = |sequence: regex_syntax::utf8::Utf8Sequence| {
            sequence.as_slice().iter().map(|range| Step::Byte(range.start, range.end)).collect()
        };
        let alternatives = sequences.map(bytes).collect();
        let rule = self.add(alternatives);
        self.classes.insert(ranges.to_vec(), rule);
        Step::Rule(rule)
    }
}

/// A rule that comes to itself before any byte, with something left to do after it: each round would leave more to do.
fn left_recursive(rules: &[Alternatives]) -> Option<usize> {
    let empty = empty(rules);
    // Where each rule comes to before any byte, and whether something is left to do then.
    let begins = |rule: &Alternatives| {
        let mut all = Vec::new();
        for alternative in rule {
            for (at, step) in alternative.iter().enumerate() {
                let Step::Rule(to) = *step else { break };
                all.push((to as usize, at + 1 < alternative.len()));
                if !empty[to as usize] {
                    break;
                }
            }
        }
        all
    };
    let edges: Vec<Vec<(usize, bool)>> = rules.iter().map(begins).collect();
    let circles = circles(&edges);
    let grows = |from: &usize| edges[*from].iter().any(|&(to, left)| left && circles[to] == circles[*from]);
    (0..rules.len()).find(grows)
}

/// Which rules may stand for nothing.
fn empty(rules: &[Alternatives]) -> Vec<bool> {
    let mut empty = vec![false; rules.len()];
    let mut users = vec![Vec::new(); rules.len()];
    // How many rules of an alternative may still stand for something.
    let mut waiting = Vec::new();
    let mut found = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        for alternative in rule {
            if alternative.iter().any(|step| matches!(step, Step::Byte(..))) {
                continue;
            }
            for step in alternative {
                if let Step::Rule(used) = step {
                    users[*used as usize].push(waiting.len());
                }
            }
            waiting.push((number, alternative.len()));
            if alternative.is_empty() {
                found.push(number);
            }
        }
    }
    while let Some(number) = found.pop() {
        if std::mem::replace(&mut empty[number], true) {
            continue;
        }
        for &user in &users[number] {
            let (owner, left) = &mut waiting[user];
            *left -= 1;
            if *left == 0 {
                found.push(*owner);
            }
        }
    }
    empty
}

/// The number of the circle that each rule is in (Kosaraju's algorithm).
fn circles(edges: &[Vec<(usize, bool)>]) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), vec![false; edges.len()]);
    for start in 0..edges.len() {
        let mut path = vec![(start, 0)];
        while let Some((at, next)) = path.last_mut() {
            if *next == 0 && std::mem::replace(&mut seen[*at], true) {
                path.pop();
                continue;
            }
            match edges[*at].get(*next) {
                Some(&(to, _)) => {
                    *next += 1;
                    if !seen[to] {
                        path.push((to, 0));
                    }
                }
                None => {
                    order.push(*at);
                    path.pop();
                }
            }
        }
    }
    let mut back = vec![Vec::new(); edges.len()];
    for (from, all) in edges.iter().enumerate() {
        all.iter().for_each(|&(to, _)| back[to].push(from));
    }
    let mut circles = vec![usize::MAX; edges.len()];
    for (circle, &start) in order.iter().rev().enumerate() {
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            if circles[at] == usize::MAX {
                circles[at] = circle;
                open.extend(&back[at]);
            }
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_begin_with_themselves_are_refused() {
        for text in [
            "root ::= root \"a\" | \"b\"",
            "root ::= a\na ::= b \"x\"\nb ::= a | \"y\"",
            "root ::= e root \"a\" | \"b\"\ne ::= \"x\"?",
            "root ::= (root \"a\")? \"b\"",
        ] {
            let error = Rules::parse(text).unwrap_err().to_string();
            assert!(error.contains("left recursion"), "{text}: {error}");
        }
        // What comes back to itself with nothing left to do goes round in no time.
        for text in ["root ::= (\"a\"?)*", "root ::= \"a\" root | \"b\"", "root ::= ws* \"a\"\nws ::= [ ]*"] {
            Rules::parse(text).unwrap();
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_line() {
        for (text, line, part) in [
            ("a ::= \"x\"", 1, "no rule root"),
            ("root ::= a\n", 1, "no rule a"),
            ("root ::= \"a\"\n\nroot ::= \"b\"", 3, "in line 1"),
        ] {
            match Rules::parse(text).unwrap_err() {
                Error::Gbnf { line: at, what } => assert!(at == line && what.contains(part), "{text:?}: {at}: {what}"),
                other => panic!("{other}"),
            }
        }
        let error = Rules::parse(&format!("root ::= {}", "[ab]{2000} ".repeat(300))).unwrap_err().to_string();
        assert!(error.contains("more than 500000 steps"), "{error}");
    }
}
