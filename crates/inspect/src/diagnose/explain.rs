//! From faults that reproduce single values to the few that explain a trace.

use std::{collections::BTreeSet, fmt::Write};

use candor_ops::CHOSEN;

use super::{
    court::{Court, Failure, Match, ROUNDED, concerns},
    gate::{Gate, Status},
    near,
    report::{Check, Confidence, Finding, Rival},
};
use crate::{
    Key, NodeId,
    fault::{Active, Harm},
};

/// A fault, or two together, and the failures that it reproduces.
struct Theory<'a> {
    faults: &'a [Active],
    explains: BTreeSet<usize>,
    residual: f64,
    /// Finite elements that agree.
    elements: usize,
    contradictions: usize,
}

impl Theory<'_> {
    fn name(&self) -> String {
        self.faults.iter().map(|active| active.fault.name).collect::<Vec<_>>().join(" + ")
    }
}

impl Court<'_> {
    /// The smallest set of faults that reproduces all failures that can be reproduced.
    pub(super) fn explain(&self, failures: &[Failure], checks: &[Check]) -> Vec<Finding> {
        let mut open: BTreeSet<usize> =
            failures.iter().enumerate().filter(|(_, failure)| !failure.matches.is_empty()).map(|(at, _)| at).collect();
        let mut findings = Vec::new();
        while !open.is_empty() {
            let theories = self.theories(failures, &open, checks);
            let Some(best) = theories.first() else { break };
            let sure = self.is_sure(best, failures, checks);
            let (best_set, best_name) = (best.explains.clone(), best.name());
            let twins: Vec<String> = theories[1..]
                .iter()
                .filter(|theory| theory.explains == best_set && theory.contradictions == best.contradictions)
                .map(Theory::name)
                .filter(|name| *name != best_name)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            findings.extend(self.findings(best, failures, &twins, sure));
            open = open.difference(&best_set).copied().collect();
        }
        findings.sort_by_key(|finding| finding.places.first().and_then(|key| self.stage.graph.find(key)));
        self.settle(&mut findings);
        findings
    }

    /// What could explain open failures, best first.
    fn theories<'f>(&self, failures: &'f [Failure], open: &BTreeSet<usize>, checks: &[Check]) -> Vec<Theory<'f>> {
        let mut theories: Vec<Theory<'f>> = Vec::new();
        for &at in open {
            for found in &failures[at].matches {
                let known = theories.iter_mut().find(|theory| theory.faults == found.faults);
                match known {
                    Some(theory) => {
                        theory.explains.insert(at);
                        theory.residual = theory.residual.max(found.residual.relative);
                        theory.elements += found.residual.elements;
                    }
                    None => theories.push(Theory {
                        faults: &found.faults,
                        explains: BTreeSet::from([at]),
                        residual: found.residual.relative,
                        elements: found.residual.elements,
                        contradictions: 0,
                    }),
                }
            }
        }
        // The search at later layers tries what was found at the first one only, so a theory of a later layer may
        // reproduce earlier values without having been asked.
        let most = theories.iter().map(|theory| theory.explains.len()).max().unwrap_or(0);
        theories.retain(|theory| theory.explains.len() == most);
        if theories.len() > 1 {
            for theory in &mut theories {
                theory.contradictions = self.contradictions(theory, failures, checks);
            }
        }
        theories.sort_by(|a, b| {
            let key = |theory: &Theory<'_>| (theory.faults.len(), theory.contradictions);
            key(a).cmp(&key(b)).then(a.residual.total_cmp(&b.residual))
        });
        theories
    }

    /// Whether a theory leaves nothing open that has to do with it: no wrong value before those that it explains, none that
    /// it would change and does not reproduce, and none that is right and would not be.
    fn is_sure(&self, theory: &Theory<'_>, failures: &[Failure], checks: &[Check]) -> bool {
        let Some(first) = theory.explains.first().map(|&at| failures[at].id) else { return false };
        let open = || failures.iter().filter(|failure| failure.matches.is_empty());
        let upstream = open().any(|failure| failure.id < first && self.leads_to(failure.id, first));
        let concerned = |id: NodeId| {
            let concerns = |active: &Active| concerns(active, &self.place(id, active.variant));
            theory.faults.iter().any(concerns)
        };
        let missed = open().any(|failure| concerned(failure.id));
        let seen = theory.explains.iter().any(|&at| failures[at].status == Status::Wrong);
        !upstream && !missed && seen && self.contradictions(theory, failures, checks) == 0
    }

    /// Whether a value is computed from another.
    fn leads_to(&self, from: NodeId, to: NodeId) -> bool {
        let (mut open, mut seen) = (vec![to], BTreeSet::new());
        while let Some(id) = open.pop() {
            if id == from {
                return true;
            }
            let inputs = self.stage.graph.nodes[id].inputs.iter().copied();
            open.extend(inputs.filter(|&input| input >= from && seen.insert(input)));
        }
        false
    }

    /// Values that are right, and would not be if the faults were there too: one of each name, of a layer in which the theory
    /// explains something where there is one.
    fn contradictions(&self, theory: &Theory<'_>, failures: &[Failure], checks: &[Check]) -> usize {
        let layer = |&at: &usize| self.stage.graph.nodes[failures[at].id].key.layer;
        let layers: BTreeSet<Option<usize>> = theory.explains.iter().map(layer).collect();
        let mut right: Vec<&Check> = checks.iter().filter(|check| check.status == Status::Right).collect();
        right.sort_by_key(|check| !layers.contains(&check.key.layer));
        let mut names = BTreeSet::new();
        right
            .into_iter()
            .filter(|check| names.insert(&check.key.name))
            .filter(|check| {
                let Some(id) = self.stage.graph.find(&check.key) else { return false };
                let residual = self.case(id).and_then(|case| self.try_faults(theory.faults, &case));
                residual.is_some_and(|residual| residual.relative > check.gate.wrong)
            })
            .count()
    }

    /// One finding for each fault of a theory.
    fn findings(&self, theory: &Theory<'_>, failures: &[Failure], twins: &[String], sure: bool) -> Vec<Finding> {
        let graph = self.stage.graph;
        let places: Vec<Key> = theory.explains.iter().map(|&at| graph.nodes[failures[at].id].key.clone()).collect();
        let explained: Vec<&Failure> = theory.explains.iter().map(|&at| &failures[at]).collect();
        let healthy = explained.iter().map(|failure| failure.healthy.relative).fold(0.0, f64::max);
        let rival = explained
            .iter()
            .filter_map(|failure| failure.rival.as_ref())
            .min_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative));
        let gate =
            explained.first().map_or(Gate { pass: 0.0, wrong: 0.0, floor: 0.0, drift: 0.0 }, |failure| failure.gate);
        let confidence = match confidence(theory, rival, gate, twins) {
            Confidence::High if !sure => Confidence::Medium,
            // There are few experts, and many ways to the same ones.
            Confidence::High if places.iter().all(|key| key.name == CHOSEN[0]) => Confidence::Medium,
            other => other,
        };
        let single = |active: &Active| Finding {
            fault: active.fault.name.to_owned(),
            entry: active.fault.entry.to_owned(),
            cause: self.cause(active),
            remedy: active.fault.remedy.to_owned(),
            source: active.fault.source.to_owned(),
            harm: active.fault.harm,
            confidence,
            places: places.clone(),
            residual: theory.residual,
            healthy,
            twins: twins.to_vec(),
            rival: rival.map(|rival| Rival { name: rival.name(), residual: rival.residual.relative }),
        };
        theory.faults.iter().map(single).collect()
    }

    /// What the engine did, and where its number was searched for, which number of the file that is.
    fn cause(&self, active: &Active) -> String {
        let mut cause = active.cause();
        if let Some(only) = active.only {
            write!(cause, "; in {} alone", self.stage.graph.nodes[only].key.name).unwrap();
        }
        let metadata = self.stage.gguf.metadata();
        let formula = active.fault.fit.as_ref().and(near::formula(metadata, &self.stage.graph.arch, active.variant));
        if let Some(formula) = formula {
            write!(cause, " ({} = {formula} of the file)", active.variant).unwrap();
        }
        cause
    }

    /// Whether differences cancel is seen only from all findings together.
    fn settle(&self, findings: &mut [Finding]) {
        let covers = |fault: &str, name: &str, findings: &[Finding]| {
            let of_fault = findings.iter().filter(|finding| finding.fault == fault);
            of_fault.flat_map(|finding| &finding.places).any(|key| key.name.starts_with(name))
        };
        let whole: BTreeSet<String> = findings
            .iter()
            .map(|finding| finding.fault.clone())
            .filter(|fault| ["Qcur", "Kcur"].iter().all(|name| covers(fault, name, findings)))
            .collect();
        let both = |finding: &Finding| whole.contains(&finding.fault);
        // Without queries and keys after their rotation it shows in what attention makes of them.
        let mixed = |finding: &Finding| {
            finding.fault == "rope-other-pairing" && finding.places.iter().all(|key| !key.name.starts_with("Qcur"))
        };
        for finding in findings.iter_mut().filter(|finding| finding.harm == Harm::Harmless) {
            if !both(finding) {
                finding.harm = Harm::Harmful;
            }
        }
        let key = format!("{}.rope.scaling.yarn_truncate", self.stage.graph.arch);
        if self.stage.gguf.metadata().get(&key).is_none() {
            let rounded =
                |finding: &&mut Finding| finding.fault == ROUNDED || finding.twins.iter().any(|twin| twin == ROUNDED);
            findings.iter_mut().filter(rounded).for_each(|finding| finding.harm = Harm::Harmless);
        }
        // Rows in the other order of pairs, rotated in the other order of pairs: the scores are the same.
        let order = ["qk-rows-not-permuted", "rope-other-pairing"];
        let paired = order
            .iter()
            .all(|name| findings.iter().any(|finding| finding.fault == *name && (both(finding) || mixed(finding))));
        if paired {
            for finding in findings.iter_mut().filter(|finding| order.contains(&finding.fault.as_str())) {
                finding.harm = Harm::Harmless;
            }
        }
    }
}

/// How sure a theory is, by how much closer it is than the next one.
fn confidence(theory: &Theory<'_>, rival: Option<&Match>, gate: Gate, twins: &[String]) -> Confidence {
    const ENOUGH: usize = 3;
    let clear = rival.is_none_or(|rival| rival.residual.relative > 3.0 * theory.residual.max(gate.floor));
    match (theory.elements >= ENOUGH && clear, twins.len()) {
        (true, 0) if theory.contradictions == 0 => Confidence::High,
        (true, _) => Confidence::Medium,
        _ => Confidence::Low,
    }
}
