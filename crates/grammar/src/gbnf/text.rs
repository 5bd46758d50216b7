//! The text of a grammar as a tree. What it means is not known here.

use crate::Error;

/// A part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// These letters.
    Text(String),
    /// A letter of these ranges, in order and apart from each other.
    Class(Vec<(char, char)>),
    /// What a rule stands for, by its name, with the line that names it.
    Rule(String, usize),
    /// One after the other.
    Sequence(Vec<Node>),
    /// One of these.
    Choice(Vec<Node>),
    /// The least number of times, and the most where there is a limit.
    Repeat(Box<Node>, usize, Option<usize>),
}

/// A rule of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    pub line: usize,
    pub node: Node,
}

/// Most repetitions, as in llama.cpp, which takes more for no limit.
const MOST_REPEATS: usize = 2000;
/// Most of them behind each other.
const MOST_AGAIN: usize = 10;
/// Most groups within each other.
const MOST_DEPTH: usize = 200;

/// The rules of a grammar, in order.
///
/// # Errors
/// [`Error::Gbnf`] with the line.
pub fn parse(text: &str) -> Result<Vec<Rule>, Error> {
    let mut reader = Reader { rest: text, line: 1, depth: 0 };
    let mut rules = Vec::new();
    reader.space(true);
    while !reader.rest.is_empty() {
        rules.push(reader.rule()?);
    }
    Ok(rules)
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
    depth: usize,
}

impl Reader<'_> {
    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Gbnf { line: self.line, what: what.into() })
    }

    fn expected<T>(&self, what: &str) -> Result<T, Error> {
        match self.peek() {
            None => self.wrong(format!("expected {what}, got the end")),
            Some('\n' | '\r') => self.wrong(format!("expected {what}, got the end of the line")),
            Some(c) => self.wrong(format!("expected {what}, got {c:?}")),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Skips blanks and comments, and line breaks where these go on with what is there.
    fn space(&mut self, breaks: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\n' | '\r' if breaks => {}
                '#' => {
                    let end = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn name(&mut self) -> Option<String> {
        let end = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn rule(&mut self) -> Result<Rule, Error> {
        let line = self.line;
        let Some(name) = self.name() else { return self.expected("the name of a rule (letters, digits and -)") };
        self.space(false);
        if !self.take("::=") {
            return self.expected(&format!("::= after {name}"));
        }
        self.space(true);
        let node = self.choice(false)?;
        if !matches!(self.peek(), None | Some('\n' | '\r')) {
            return self.expected("the end of the rule");
        }
        self.space(true);
        Ok(Rule { name, line, node })
    }

    fn choice(&mut self, nested: bool) -> Result<Node, Error> {
        let mut all = vec![self.sequence(nested)?];
        while self.take("|") {
            self.space(true);
            all.push(self.sequence(nested)?);
        }
        Ok(if all.len() == 1 { all.swap_remove(0) } else { Node::Choice(all) })
    }

    fn sequence(&mut self, nested: bool) -> Result<Node, Error> {
        let mut all: Vec<Node> = Vec::new();
        let mut again = 0;
        while let Some(c) = self.peek() {
            again = if matches!(c, '*' | '+' | '?' | '{') { again + 1 } else { 0 };
            if again > MOST_AGAIN {
                return self.wrong(format!("more than {MOST_AGAIN} repetitions of one thing"));
            }
            match c {
                '"' => all.push(self.literal()?),
                '[' => all.push(self.class()?),
                '.' => {
                    self.next();
                    all.push(Node::Class(vec![('\0', char::MAX)]));
                }
                '(' => {
                    self.depth += 1;
                    if self.depth > MOST_DEPTH {
                        return self.wrong(format!("more than {MOST_DEPTH} groups within each other"));
                    }
                    self.next();
                    self.space(true);
                    let group = self.choice(true)?;
                    if !self.take(")") {
                        return self.expected(")");
                    }
                    self.depth -= 1;
                    all.push(group);
                }
                '*' | '+' | '?' | '{' => {
                    let (least, most) = self.times()?;
                    let Some(last) = all.pop() else { return self.wrong(format!("nothing is in front of {c}")) };
                    all.push(Node::Repeat(Box::new(last), least, most));
                }
                '<' | '!' => return self.wrong("tokens by name or number (<...>) are not served"),
                c if is_word(c) => {
                    let line = self.line;
                    all.extend(self.name().map(|name| Node::Rule(name, line)));
                }
                _ => break,
            }
            self.space(nested);
        }
        Ok(if all.len() == 1 { all.swap_remove(0) } else { Node::Sequence(all) })
    }

    /// How often, by `*`, `+`, `?` or what is in braces.
    fn times(&mut self) -> Result<(usize, Option<usize>), Error> {
        match self.next() {
            Some('*') => return Ok((0, None)),
            Some('+') => return Ok((1, None)),
            Some('?') => return Ok((0, Some(1))),
            _ => {}
        }
        self.space(false);
        let least = match self.number()? {
            Some(least) => least,
            None => return self.expected("a number"),
        };
        self.space(false);
        let mut most = Some(least);
        if self.take(",") {
            self.space(false);
            most = self.number()?;
            self.space(false);
        }
        if !self.take("}") {
            return self.expected("}");
        }
        if least > MOST_REPEATS {
            return self.wrong(format!("more than {MOST_REPEATS} repetitions"));
        }
        if most.is_some_and(|most| most < least) {
            return self.wrong("at most fewer repetitions than at least");
        }
        Ok((least, most.filter(|&most| most <= MOST_REPEATS)))
    }

    fn number(&mut self) -> Result<Option<usize>, Error> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return Ok(None);
        }
        let Ok(number) = digits.parse() else { return self.wrong(format!("the number {digits} is too large")) };
        self.rest = rest;
        Ok(Some(number))
    }

    fn literal(&mut self) -> Result<Node, Error> {
        self.next();
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return self.expected("the end of the text, \""),
                Some('"') => break,
                Some(_) => text.push(self.letter()?),
            }
        }
        self.next();
        Ok(Node::Text(text))
    }

    fn class(&mut self) -> Result<Node, Error> {
        self.next();
        let negated = self.take("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None => return self.expected("the end of the class, ]"),
                Some(']') => break,
                Some(_) => {}
            }
            let first = self.letter()?;
            let mut last = first;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.next();
                if self.peek().is_none() {
                    return self.expected("the end of a range");
                }
                last = self.letter()?;
            }
            if last < first {
                return self.wrong(format!("the range {first:?} to {last:?} is empty"));
            }
            ranges.push((first, last));
        }
        self.next();
        if ranges.is_empty() {
            return self.wrong("the class has no letters");
        }
        let ranges = merged(ranges);
        let ranges = if negated { others(&ranges) } else { ranges };
        match ranges.is_empty() {
            true => self.wrong("the class leaves no letter"),
            false => Ok(Node::Class(ranges)),
        }
    }

    /// A letter, as it is or escaped.
    fn letter(&mut self) -> Result<char, Error> {
        let Some(c) = self.next() else { return self.expected("a letter") };
        if c != '\\' {
            return Ok(c);
        }
        let digits = match self.peek() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some('n') => return self.escaped('\n'),
            Some('r') => return self.escaped('\r'),
            Some('t') => return self.escaped('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-')) => return self.escaped(c),
            _ => return self.expected(r#"one of n r t \ " [ ] - x u U after a \"#),
        };
        self.next();
        let code = self.rest.get(..digits).and_then(|text| {
            text.chars().all(|c| c.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok()).flatten()
        });
        let Some(code) = code else { return self.wrong(format!("expected {digits} hexadecimal digits")) };
        let Some(c) = char::from_u32(code) else { return self.wrong(format!("U+{code:04X} is no letter")) };
        self.rest = &self.rest[digits..];
        Ok(c)
    }

    fn escaped(&mut self, c: char) -> Result<char, Error> {
        self.next();
        Ok(c)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// The ranges in order, none beside another.
fn merged(mut ranges: Vec<(char, char)>) -> Vec<(char, char)> {
    ranges.sort_unstable();
    let mut all: Vec<(char, char)> = Vec::new();
    for (first, last) in ranges {
        match all.last_mut() {
            Some(before) if after(before.1).is_none_or(|next| first <= next) => before.1 = before.1.max(last),
            _ => all.push((first, last)),
        }
    }
    all
}

/// All letters but those of the ranges.
fn others(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let (mut all, mut from) = (Vec::new(), Some('\0'));
    for &(first, last) in ranges {
        if let (Some(from), Some(to)) = (from, before(first))
            && from <= to
        {
            all.push((from, to));
        }
        from = after(last);
    }
    all.extend(from.map(|from| (from, char::MAX)));
    all
}

fn after(c: char) -> Option<char> {
    (c..=char::MAX).nth(1)
}

fn before(c: char) -> Option<char> {
    ('\0'..=c).nth_back(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        parse(&format!("root ::= {text}")).unwrap().swap_remove(0).node
    }

    #[test]
    fn classes_are_ranges_in_order() {
        assert_eq!(one("[c-ea-bz]"), Node::Class(vec![('a', 'e'), ('z', 'z')]));
        assert_eq!(one("[^a]"), Node::Class(vec![('\0', '`'), ('b', char::MAX)]));
        assert_eq!(one(r"[\]\-a-]"), Node::Class(vec![('-', '-'), (']', ']'), ('a', 'a')]));
        assert_eq!(one(r"[\x41\u00e9\U0001F600]"), Node::Class(vec![('A', 'A'), ('é', 'é'), ('😀', '😀')]));
        assert_eq!(one(r"[^\x00-\U0010FFFE]"), Node::Class(vec![(char::MAX, char::MAX)]));
    }

    #[test]
    fn repetitions_bind_to_what_is_in_front() {
        let text = |text: &str| Node::Text(text.to_owned());
        let repeat = |node: Node, least, most| Node::Repeat(Box::new(node), least, most);
        assert_eq!(one("\"ab\"*"), repeat(text("ab"), 0, None));
        assert_eq!(one("\"a\"{2}"), repeat(text("a"), 2, Some(2)));
        assert_eq!(one("\"a\"{2,}"), repeat(text("a"), 2, None));
        assert_eq!(one("(\"a\" | \"b\")?"), repeat(Node::Choice(vec![text("a"), text("b")]), 0, Some(1)));
        // As in llama.cpp, far too many are no limit.
        assert_eq!(one("\"a\"{2,9999}"), repeat(text("a"), 2, None));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, part) in [
            ("root = \"a\"", 1, "::="),
            ("root ::= \"a\n", 2, "end of the text"),
            ("root ::= \"a\"\n\n# x\nb ::= [", 4, "end of the class"),
            ("root ::= (\n\"a\"", 2, "expected )"),
            ("root ::= *", 1, "in front of *"),
            ("root ::= \"\\q\"", 1, "after a \\"),
            ("root ::= \"\\xg1\"", 1, "2 hexadecimal digits"),
            ("root ::= \"\\uD800\"", 1, "U+D800 is no letter"),
            ("root ::= [z-a]", 1, "empty"),
            ("root ::= []", 1, "no letters"),
            ("root ::= \"a\"{3,2}", 1, "fewer"),
            ("root ::= \"a\"{x}", 1, "a number"),
            ("root ::= \"a\"{2001}", 1, "2000"),
            ("root ::= <think>", 1, "not served"),
            ("root ::= \"a\" ]", 1, "end of the rule"),
            ("_ ::= \"a\"", 1, "name of a rule"),
        ] {
            match parse(text).unwrap_err() {
                Error::Gbnf { line: at, what } => assert!(at == line && what.contains(part), "{text:?}: {at}: {what}"),
                other => panic!("{other}"),
            }
        }
        assert!(parse(&format!("root ::= {}", "(".repeat(100_000))).is_err());
        assert!(parse(&format!("root ::= \"a\"{}", "?".repeat(100_000))).is_err());
    }
}
