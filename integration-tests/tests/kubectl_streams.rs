//! Real kubectl in the containers of a cluster: exec, attach, cp, port-forward, over a WebSocket to the kubelet.
//!
//! Where kubectl 1.31 or later is not installed the test says so and passes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use listwatch_integration_tests::eventually;
use listwatch_integration_tests::kubectl::{Shell, kubectl_is_there};

const LIMIT: Duration = Duration::from_secs(30);

/// A pod that says something twice a second, and one that serves HTTP.
const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  containers:
  - name: c
    image: busybox
    command: [sh, -c, 'n=0; while :; do n=$((n+1)); echo "tick $n"; echo "tock $n" >&2; sleep 0.5; done']
    env: [{name: GREETING, value: hello}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: 'soscscs/myapp:v1', ports: [{containerPort: 80}]}]}
"#;

async fn wait_ready(shell: &Shell, pods: usize) {
    eventually(LIMIT, "the pods are ready", || async {
        let output = shell.output(&["get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].ready}"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let ready = said.split_whitespace().filter(|word| *word == "true").count();
        if ready == pods { Ok(()) } else { Err(said) }
    })
    .await;
}

/// The pods, ready.
async fn with_pods(shell: Shell) -> Shell {
    shell.apply(PODS);
    wait_ready(&shell, 2).await;
    shell
}

/// What `exec` and `attach` do alike in kubectl and `lw`.
fn runs_commands(shell: &Shell) -> anyhow::Result<()> {
    let output = shell.output(&["exec", "talker", "--", "sh", "-c", "echo $GREETING; echo bad >&2; exit 3"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"hello\n"[..]), "{err}");
    assert_eq!(err, "bad\ncommand terminated with exit code 3\n");

    // All of a large input arrives, and its end; all of a large output too.
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let (code, out, err) = shell.talk(&["exec", "-i", "talker", "--", "cat"], &large);
    assert_eq!((code, out == large), (Some(0), true), "{} bytes: {err}", out.len());
    let output = shell.output(&["exec", "talker", "--", "no-such-program"]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && err.contains("executable file not found in $PATH"), "{err}");

    let mut attached = shell.command(&["attach", "talker"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    BufReader::new(attached.stdout.take().expect("piped")).read_line(&mut line)?;
    end(&mut attached);
    assert!(line.starts_with("tick "), "{line:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_in_containers() -> anyhow::Result<()> {
    if !kubectl_is_there(31) {
        return Ok(());
    }
    let shell = with_pods(Shell::start(&["--nodes", "1"])?).await;
    runs_commands(&shell)?;

    std::fs::write(shell.home().join("there.txt"), "a file\n")?;
    for (from, to) in [("there.txt", "talker:copy.txt"), ("talker:copy.txt", "back.txt")] {
        let output = shell.output(&["cp", from, to]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(std::fs::read_to_string(shell.home().join("back.txt"))?, "a file\n");

    // A command whose client goes works off what it was given.
    let slow = ["exec", "talker", "--", "sh", "-c", "echo on; sleep 1; echo more; touch worked-off.txt"];
    let mut left = shell.command(&slow).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    BufReader::new(left.stdout.take().expect("piped")).read_line(&mut String::new())?;
    end(&mut left);
    eventually(LIMIT, "the command has ended its work", || async {
        let found = shell.output(&["exec", "talker", "--", "ls", "worked-off.txt"]);
        if found.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&found.stderr).into_owned()) }
    })
    .await;

    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_passed_on_to_pods() -> anyhow::Result<()> {
    if !kubectl_is_there(31) {
        return Ok(());
    }
    let shell = Shell::start(&["--nodes", "1"])?;
    shell.apply(PODS);
    shell.apply(
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
         spec: {selector: {of: web}, ports: [{name: http, port: 8080, targetPort: 80}]}\n",
    );
    wait_ready(&shell, 2).await;
    assert!(shell.output(&["label", "pod", "web", "of=web"]).status.success());
    let raw = |path: &str| {
        let output = shell.output(&["get", "--raw", &format!("/api/v1/namespaces/default/{path}")]);
        String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into_owned()
    };
    for path in ["pods/web/proxy/", "pods/web:80/proxy/", "services/web:8080/proxy/", "services/web:http/proxy/"] {
        assert!(raw(path).starts_with("Hello MyApp"), "{path}: {}", raw(path));
    }
    let told = raw("pods/web:9999/proxy/");
    assert!(told.contains("ServiceUnavailable") && told.contains("error forwarding port 9999"), "{told}");
    assert!(raw("services/nosuch:80/proxy/").contains("services \"nosuch\" not found"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded() -> anyhow::Result<()> {
    if !kubectl_is_there(31) {
        return Ok(());
    }
    forwards_ports(Shell::start(&["--nodes", "1"])?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lw_forwards_ports() -> anyhow::Result<()> {
    forwards_ports(Shell::start_lw(&["--nodes", "1"])?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lw_runs_commands_in_containers() -> anyhow::Result<()> {
    let shell = with_pods(Shell::start_lw(&["--nodes", "1"])?).await;
    runs_commands(&shell)?;
    let output = shell.output(&["exec", "talker", "-c", "nope", "--", "ls"]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(err, "error: container nope is not valid for pod talker out of: c\n");
    Ok(())
}

async fn forwards_ports(shell: Shell) -> anyhow::Result<()> {
    let shell = with_pods(shell).await;
    let mut forward = shell.command(&["port-forward", "pod/web", ":80"]).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    // Held to the end: kubectl says a line for each connection, and dies of a closed pipe.
    let mut said = BufReader::new(forward.stdout.take().expect("piped"));
    said.read_line(&mut line)?;
    let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
    let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"));
    let ask = || -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
        let mut bytes = Vec::new();
        // kubectl may reset a connection that is at its end, behind the whole answer.
        match stream.read_to_end(&mut bytes) {
            Err(error) if bytes.is_empty() => Err(error.into()),
            Ok(_) | Err(_) => Ok(String::from_utf8(bytes)?),
        }
    };
    // One after the other and all at once, over the one connection of the client.
    assert!(ask()?.starts_with("HTTP/1.1 200"), "the first answer");
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for answer in asked {
            let answer = answer.join().expect("no panic").expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    });
    end(&mut forward);
    drop(said);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_containers_say_that_they_have_no_process() -> anyhow::Result<()> {
    if !kubectl_is_there(31) {
        return Ok(());
    }
    let shell = with_pods(Shell::start(&["--nodes", "1", "--runtime", "simulated"])?).await;
    let output = shell.output(&["exec", "web", "--", "ls"]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && err.contains("the containers of this node are simulated"), "{err}");
    let output = shell.output(&["logs", "web"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    Ok(())
}

fn end(child: &mut Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}
