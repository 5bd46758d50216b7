//! Which beginnings of prompts memory holds: a tree of tokens with their roles, whose first branch is a scope. What holds them
//! is not known here.

use std::{collections::BTreeMap, mem};

use crate::Role;

/// A token, and what it is to the model: it has other bits where it is read than where it is written.
type Seen = (u32, Role);

/// Tokens, of which the first `read` are read and the others written.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub tokens: &'a [u32],
    pub read: usize,
}

/// The beginnings that are kept, each by an id, in scopes that share nothing.
pub struct Prefixes<S, T> {
    scopes: BTreeMap<S, Node<T>>,
    /// How often one was kept or used.
    uses: u64,
}

/// A branch of the tree, or its root.
struct Node<T> {
    /// What follows the tokens of the branches above it.
    edge: Vec<Seen>,
    /// What ends here.
    kept: Option<Kept<T>>,
    children: Vec<Node<T>>,
}

struct Kept<T> {
    id: T,
    /// The fewest tokens that its memory can go back to, besides all of them.
    least: usize,
    used: u64,
}

/// A beginning of which some tokens are to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<T> {
    pub id: T,
    pub tokens: usize,
}

impl Text<'_> {
    fn at(&self, place: usize) -> Seen {
        (self.tokens[place], if place < self.read { Role::Prefill } else { Role::Decode })
    }

    /// How many of the first tokens are those of another text.
    pub fn alike(&self, other: Text<'_>) -> usize {
        let places = 0..self.tokens.len().min(other.tokens.len());
        places.take_while(|&place| self.at(place) == other.at(place)).count()
    }

    /// How many tokens of `edge` are those from a place on.
    fn matching(&self, edge: &[Seen], place: usize) -> usize {
        let places = place..self.tokens.len();
        edge.iter().zip(places).take_while(|&(&seen, place)| seen == self.at(place)).count()
    }
}

impl<S: Ord, T: Copy + PartialEq> Prefixes<S, T> {
    /// None.
    pub fn new() -> Prefixes<S, T> {
        Prefixes { scopes: BTreeMap::new(), uses: 0 }
    }

    /// The longest beginning of a text that is kept, of `most` tokens at most.
    pub fn find(&self, scope: &S, text: Text<'_>, most: usize) -> Option<Found<T>> {
        let mut found: Option<Found<T>> = None;
        self.scopes.get(scope)?.visit(text, (0, 0), &mut |kept, len, alike| {
            let tokens = alike.min(most);
            let is_had = tokens == len || tokens >= kept.least;
            if is_had && tokens > found.map_or(0, |found| found.tokens) {
                found = Some(Found { id: kept.id, tokens });
            }
        });
        found
    }

    /// Keeps a text, whose memory can go back to `least` tokens. Those that are not needed beside it any more are the answer: it
    /// may be among them.
    pub fn keep(&mut self, scope: S, text: Text<'_>, id: T, least: usize) -> Vec<T> {
        self.uses += 1;
        let used = self.uses;
        let root = self.scopes.entry(scope).or_insert_with(|| Node::new(Vec::new()));
        let mut covered = None;
        root.visit(text, (0, 0), &mut |kept, _, alike| {
            if alike == text.tokens.len() && kept.least <= least {
                covered = Some(kept.id);
            }
        });
        if let Some(covered) = covered {
            self.touch(covered);
            return vec![id];
        }
        let mut over = Vec::new();
        root.insert(text, 0, Kept { id, least, used }, &mut over);
        root.prune();
        over
    }

    /// Notes that one is used.
    pub fn touch(&mut self, id: T) {
        self.uses += 1;
        let used = self.uses;
        for root in self.scopes.values_mut() {
            root.each(&mut |kept| {
                if let Some(kept) = kept.as_mut().filter(|kept| kept.id == id) {
                    kept.used = used;
                }
            });
        }
    }

    /// Forgets the one that was not used for the longest time.
    pub fn forget_oldest(&mut self) -> Option<T> {
        let mut oldest: Option<(u64, T)> = None;
        for root in self.scopes.values_mut() {
            root.each(&mut |kept| {
                if let Some(kept) = kept.as_ref().filter(|kept| oldest.is_none_or(|(used, _)| kept.used < used)) {
                    oldest = Some((kept.used, kept.id));
                }
            });
        }
        let (_, id) = oldest?;
        for root in self.scopes.values_mut() {
            root.each(&mut |kept| *kept = kept.take().filter(|kept| kept.id != id));
            root.prune();
        }
        self.scopes.retain(|_, root| !root.is_empty());
        Some(id)
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.scopes.values().map(Node::len).sum()
    }
}

impl<T> Node<T> {
    fn new(edge: Vec<Seen>) -> Node<T> {
        Node { edge, kept: None, children: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.kept.is_none() && self.children.is_empty()
    }

    fn len(&self) -> usize {
        usize::from(self.kept.is_some()) + self.children.iter().map(Node::len).sum::<usize>()
    }

    /// Shows what is kept from here on: each with its tokens' number, and how many of the first of them are the text's. `len` and
    /// `alike` are those two numbers above this node.
    fn visit(&self, text: Text<'_>, (len, alike): (usize, usize), show: &mut impl FnMut(&Kept<T>, usize, usize)) {
        let alike = if alike == len { alike + text.matching(&self.edge, len) } else { alike };
        let len = len + self.edge.len();
        if let Some(kept) = &self.kept {
            show(kept, len, alike);
        }
        self.children.iter().for_each(|child| child.visit(text, (len, alike), show));
    }

    fn each(&mut self, change: &mut impl FnMut(&mut Option<Kept<T>>)) {
        change(&mut self.kept);
        self.children.iter_mut().for_each(|child| child.each(change));
    }

    /// Keeps what follows `len` tokens of a text, which end here; what that makes superfluous on the way goes to `over`.
    fn insert(&mut self, text: Text<'_>, len: usize, new: Kept<T>, over: &mut Vec<T>)
    where
        T: Copy,
    {
        let is_end = len == text.tokens.len();
        if let Some(kept) = self.kept.take_if(|kept| is_end || kept.least >= new.least) {
            over.push(kept.id);
        }
        if is_end {
            self.kept = Some(new);
            return;
        }
        let near = self.children.iter_mut().find(|child| child.edge.first() == Some(&text.at(len)));
        let Some(child) = near else {
            let mut child = Node::new((len..text.tokens.len()).map(|place| text.at(place)).collect());
            child.kept = Some(new);
            self.children.push(child);
            return;
        };
        let matching = text.matching(&child.edge, len);
        if matching < child.edge.len() {
            let rest = child.edge.split_off(matching);
            let mut upper = Node::new(mem::replace(&mut child.edge, rest));
            mem::swap(child, &mut upper);
            child.children.push(upper);
        }
        child.insert(text, len + matching, new, over);
    }

    /// Takes branches away that lead to nothing, and joins those that do not branch.
    fn prune(&mut self) {
        self.children.iter_mut().for_each(Node::prune);
        self.children.retain(|child| !child.is_empty());
        for child in &mut self.children {
            if child.kept.is_none() && child.children.len() == 1 {
                let below = child.children.remove(0);
                child.edge.extend(below.edge);
                (child.kept, child.children) = (below.kept, below.children);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tokens: &[u32], read: usize) -> Text<'_> {
        Text { tokens, read }
    }

    fn found(id: usize, tokens: usize) -> Option<Found<usize>> {
        Some(Found { id, tokens })
    }

    #[test]
    fn the_longest_beginning_is_found_as_far_as_roles_agree() {
        let mut kept = Prefixes::new();
        assert!(kept.keep(1, text(&[1, 2, 3, 4], 3), 10, 0).is_empty());
        assert!(kept.keep(1, text(&[1, 2, 5], 3), 11, 0).is_empty());
        let prompt = [1, 2, 3, 4, 5];
        assert_eq!(kept.find(&1, text(&prompt, 5), 4), found(10, 3), "token 4 was written");
        assert_eq!(kept.find(&1, text(&prompt, 3), 4), found(10, 4));
        assert_eq!(kept.find(&1, text(&prompt, 5), 2).unwrap().tokens, 2);
        assert_eq!(kept.find(&1, text(&[1, 2, 5, 6], 4), 3), found(11, 3));
        assert_eq!(kept.find(&1, text(&[2], 1), 1), None);
        assert_eq!(kept.find(&2, text(&prompt, 5), 4), None, "another scope");
    }

    #[test]
    fn memory_that_cannot_go_back_is_had_as_it_is_or_not_at_all() {
        let mut kept = Prefixes::new();
        kept.keep(0, text(&[1, 2, 3, 4], 4), 10, 4);
        assert_eq!(kept.find(&0, text(&[1, 2, 3, 4, 5], 5), 4), found(10, 4));
        assert_eq!(kept.find(&0, text(&[1, 2, 3, 4], 4), 3), None);
        assert_eq!(kept.find(&0, text(&[1, 2, 3, 5], 4), 3), None);
        // Both are needed: the one that goes back is of one token less.
        assert!(kept.keep(0, text(&[1, 2, 3], 3), 11, 0).is_empty());
        assert_eq!(kept.find(&0, text(&[1, 2, 3, 5], 4), 3), found(11, 3));
        assert_eq!(kept.len(), 2);
    }

    #[test]
    fn what_another_has_is_not_kept_twice() {
        let mut kept = Prefixes::new();
        assert!(kept.keep(0, text(&[1, 2], 2), 10, 0).is_empty());
        assert_eq!(kept.keep(0, text(&[1, 2, 3], 3), 11, 0), [10]);
        assert_eq!(kept.keep(0, text(&[1], 1), 12, 0), [12]);
        assert_eq!(kept.keep(0, text(&[1, 2, 3], 3), 13, 0), [13]);
        assert!(kept.keep(3, text(&[1, 2], 2), 14, 0).is_empty(), "another scope");
        kept.touch(11);
        assert_eq!([kept.forget_oldest(), kept.forget_oldest(), kept.forget_oldest()], [Some(14), Some(11), None]);
        assert!(kept.scopes.is_empty());
    }

    /// Against a list of all, which is looked through.
    #[test]
    fn the_tree_finds_what_a_list_does() {
        struct Plain {
            scope: u64,
            seen: Vec<Seen>,
            least: usize,
            used: usize,
            id: usize,
        }
        let mut random = 1u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        let (mut hits, mut kept, mut plain) = (0, Prefixes::new(), Vec::<Plain>::new());
        for turn in 0..20_000 {
            let tokens: Vec<u32> = (0..1 + below(9)).map(|_| below(2) as u32).collect();
            let (scope, read) = (below(2) as u64, tokens.len() - below(tokens.len()));
            let text = text(&tokens, read);
            let seen: Vec<Seen> = (0..tokens.len()).map(|place| text.at(place)).collect();
            let alike = |other: &[Seen]| other.iter().zip(&seen).take_while(|(a, b)| a == b).count();
            match below(4) {
                0 => {
                    let least = [0, tokens.len(), below(tokens.len())][below(3)];
                    let over = kept.keep(scope, text, turn, least);
                    let covers =
                        |a: &[Seen], a_least: usize, b: &[Seen], b_least| a.starts_with(b) && a_least <= b_least;
                    let of = |one: &&mut Plain| one.scope == scope && covers(&one.seen, one.least, &seen, least);
                    if over == [turn] {
                        let mut covering = plain.iter_mut().filter(of);
                        assert!(covering.next().is_some());
                        // Which of several is used does not matter.
                        let used = kept.uses;
                        let mut touched = None;
                        kept.scopes.get_mut(&scope).unwrap().each(&mut |kept| {
                            touched = kept.as_ref().filter(|kept| kept.used == used).map(|kept| kept.id).or(touched);
                        });
                        let one = plain.iter_mut().find(|one| Some(one.id) == touched).unwrap();
                        one.used = turn;
                    } else {
                        assert!(plain.iter_mut().find(of).is_none());
                        let is_over = |one: &Plain| one.scope == scope && covers(&seen, least, &one.seen, one.least);
                        assert_eq!(over.len(), plain.iter().filter(|one| is_over(one)).count());
                        plain.retain(|one| !is_over(one));
                        plain.push(Plain { scope, seen, least, used: turn, id: turn });
                    }
                }
                1 if plain.len() > 6 => {
                    let oldest = plain.iter().enumerate().min_by_key(|(_, one)| one.used).unwrap().0;
                    assert_eq!(kept.forget_oldest(), Some(plain.remove(oldest).id));
                }
                _ => {
                    let most = tokens.len() - 1;
                    let had = |one: &&Plain| {
                        one.scope == scope && {
                            let tokens = alike(&one.seen).min(most);
                            tokens == one.seen.len() || tokens >= one.least
                        }
                    };
                    let longest = plain.iter().filter(had).map(|one| alike(&one.seen).min(most)).max().unwrap_or(0);
                    let found = kept.find(&scope, text, most);
                    assert_eq!(found.map_or(0, |found| found.tokens), longest);
                    if let Some(Found { id, .. }) = found {
                        let one = plain.iter_mut().find(|one| one.id == id).unwrap();
                        assert!(alike(&one.seen) >= longest && one.scope == scope);
                        kept.touch(id);
                        one.used = turn;
                        hits += 1;
                    }
                }
            }
            assert_eq!(kept.len(), plain.len());
        }
        assert!(hits > 1000, "{hits}");
    }
}
