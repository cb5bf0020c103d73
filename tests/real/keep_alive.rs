//! Kept connections to a program that closes them when it likes.

use std::sync::Arc;

use backlog_lab::arm::{Arm, Catalog, Engine, Server};
use backlog_lab::load::Progress;
use backlog_lab::plan::Plan;
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    [Engine::Threads, Engine::Async]
        .into_iter()
        .map(|engine| {
            let name = format!("{engine:?}").to_lowercase();
            Trial::test(
                format!("keep-alive/nginx-closes-after-five-{name}"),
                move || nginx_closes_after_five(engine),
            )
        })
        .collect()
}

/// Ten workers with 20 requests each need four connections each.
fn nginx_closes_after_five(engine: Engine) -> Result<(), Failed> {
    let changes = [
        "client.connections=10",
        "protocol.keep-alive=true",
        "protocol.requests=20",
    ];
    let changes: Vec<_> = changes
        .iter()
        .map(|one| one.parse())
        .collect::<Result<_, String>>()?;
    let arms = Catalog::shipped().load(&["survey/nginx".to_owned()], &changes)?;
    let mut arm: Arm = arms
        .into_iter()
        .nth(1)
        .ok_or("the cell of the default somaxconn")?;
    arm.client.engine = engine;
    let Server::Program(server) = &mut arm.server else {
        return Err("nginx is a program".into());
    };
    for text in server.program.files.values_mut() {
        // The limit belongs to a location, and one is found only where the server itself does not return.
        *text = text.replace("access_log off;", "access_log off; keepalive_requests 5;");
        *text = text.replace(
            "return 200 \"OK\\n\";",
            "location / { return 200 \"OK\\n\"; }",
        );
        assert!(text.contains("location /"), "{text}");
    }
    let plan = Plan::new(vec![arm], 1, 1, Vec::new());
    let measured = KernelLab::default()
        .observe(plan.order()[0], &Arc::new(Progress::default()))
        .map_err(|error| error.to_string())?;
    let requests = measured.attempts.iter().flat_map(|one| &one.requests);
    assert_eq!(requests.filter(|one| one.right).count(), 200);
    assert_eq!(measured.attempts.len(), 40);
    for attempt in &measured.attempts {
        assert_eq!(attempt.requests.len(), 5, "{attempt:?}");
    }
    Ok(())
}
