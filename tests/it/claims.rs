//! The claims in circulation: every arm that they name exists, the reference lists the same, and a ruling follows from
//! what was measured.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use backlog_lab::arm::Catalog;
use backlog_lab::manifest::Host;
use backlog_lab::report;
use backlog_lab::result::{Claim, Ruled, Ruling, claims};

use crate::pipeline::{Scripted, accept, arm, attempt, measured, run};
use backlog_lab::observation::Ended;

fn carried() -> Vec<Claim> {
    claims().expect("claims.toml is well-formed")
}

#[test]
fn every_claim_names_arms_that_exist_and_figures() {
    let all = Catalog::shipped().all().expect("shipped arms");
    let all = all
        .iter()
        .flat_map(|source| source.arms(&[]).expect("arms"));
    let known: BTreeSet<String> = all.map(|arm| arm.name).collect();
    let mut said = BTreeSet::new();
    for claim in carried() {
        assert!(said.insert(claim.says.clone()), "{} twice", claim.says);
        assert!(!claim.predicts.is_empty(), "{}", claim.says);
        for prediction in &claim.predicts {
            assert!(known.contains(&prediction.arm), "{}", prediction.arm);
            assert!(!prediction.figures.bounds.is_empty(), "{}", claim.says);
        }
    }
}

/// The table in docs/method.md holds the claims that are run, with their arms, in their order.
#[test]
fn the_reference_lists_the_claims_that_are_run() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/method.md");
    let text = fs::read_to_string(path).expect("docs/method.md");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| claim |"))
        .skip(2)
        .take_while(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let listed: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let claims = carried();
    let run: Vec<&str> = claims.iter().map(|claim| claim.says.as_str()).collect();
    assert_eq!(listed, run);
    for (row, claim) in rows.iter().zip(&claims) {
        let ruling = row[1];
        assert!(ruling.contains(&claim.truth), "{}: {ruling}", claim.says);
        assert!(!ruling.contains("not measured"), "{}", claim.says);
        for prediction in &claim.predicts {
            assert!(
                row[2].contains(&format!("`{}`", prediction.arm)),
                "{}",
                claim.says
            );
        }
    }
}

/// Two arms of which one answers both of its clients, the other one of two.
fn rule(predicts: &str) -> Ruled {
    let answers = |name: &str| {
        let ends = [
            Ended::Answered,
            if name == "m/b=1" {
                Ended::TimeUp
            } else {
                Ended::Answered
            },
        ];
        let attempts = ends.into_iter().zip(0..).map(|(ended, n)| {
            let port = 40_000 + u16::try_from(n).expect("few");
            attempt(n, port, ended)
        });
        Ok(measured(
            attempts.collect(),
            vec![accept(100, 40_000), accept(200, 40_001)],
        ))
    };
    let lab = Scripted(answers);
    let results = run(vec![arm("m/b=1", 2, ""), arm("m/b=2", 2, "")], &lab);
    let text = format!("says = \"all are answered\"\ntruth = \"not all\"\npredicts = [{predicts}]");
    let claim: Claim = toml::from_str(&text).expect("a claim");
    claim.rule(&results.arms)
}

#[test]
fn a_ruling_follows_from_what_was_measured() {
    let one = "{ arm = \"m/b=1\", figures = { ok = 2 } }";
    let two = "{ arm = \"m/b=2\", figures = { ok = 2 }, when = \"b is two\" }";
    let other = "{ arm = \"m/b=3\", figures = { ok = 2 } }";
    assert_eq!(rule(two).ruling, Ruling::Holds);
    assert_eq!(rule(one).ruling, Ruling::DoesNotHold);
    let both = rule(&format!("{one}, {two}"));
    assert_eq!(both.ruling, Ruling::HoldsOnlyWhen(vec!["b is two".into()]));
    let unknown = rule(&format!("{two}, {other}"));
    assert_eq!(
        unknown.ruling,
        Ruling::NotMeasured("m/b=3 was not run".into())
    );
    let host = Host {
        kernel: Some("6.18.0".into()),
        architecture: None,
        cpus: None,
    };
    assert_eq!(
        report::claims(&host, &[both.clone(), unknown.clone()], 80),
        "Linux 6.18.0\n\
         \n\
         \"all are answered\"\n\
         \x20 Holds only when b is two: not all\n\
         \x20   m/b=1\n\
         \x20     ok: claimed 2, measured 1\n\
         \x20   m/b=2\n\
         \x20     ok: claimed 2, measured 2\n\
         \n\
         \"all are answered\"\n\
         \x20 Not measured: m/b=3 was not run\n\
         \x20   m/b=2\n\
         \x20     ok: claimed 2, measured 2\n\
         \x20   m/b=3\n\
         \x20     ok: claimed 2, measured unknown\n\
         \n\
         Of 2 claims 0 hold, 1 hold only sometimes, 0 do not hold, 1 were not measured.\n"
    );
    assert_eq!(
        report::claims_markdown(&host, &[both]),
        "| claim | on Linux 6.18.0 | tested by |\n\
         | --- | --- | --- |\n\
         | all are answered | **holds only when b is two**: not all | `m/b=1`: `ok` 2 claimed, 1 measured; `m/b=2`: `ok` 2 claimed, 2 measured |\n"
    );
}
