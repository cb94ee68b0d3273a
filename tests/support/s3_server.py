# SPDX-License-Identifier: Apache-2.0
"""A server of S3 on loopback with the files of a folder, for s3_server.hpp.

usage: s3_server.py FOLDER BUCKET     prints its port, and ends when its standard input does, or after two minutes

The bucket "endless" is one of a faulty server, which has no files, and lists the same page again and again.

What it reads there, a line each: "list PREFIX", which prints the keys in a line; "get KEY FILE" and "put KEY FILE",
which copy an object to a file and back, and print a line that is empty.
"""
import http.server
import logging
import os
import pathlib
import sys
import threading

import boto3
from moto.server import ThreadedMotoServer

PAGE = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>endless</Name><KeyCount>1</KeyCount>
<MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>
<CommonPrefixes><Prefix>run/checkpoints/step-1/</Prefix></CommonPrefixes></ListBucketResult>"""


class Endless(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(200 if self.path.split("?")[0].strip("/") == "endless" else 404, b"")

    def do_GET(self):
        self.answer(200, PAGE)

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


folder, bucket = pathlib.Path(sys.argv[1]), sys.argv[2]
logging.getLogger("werkzeug").disabled = True
limit = threading.Timer(120, lambda: os._exit(1))
limit.daemon = True
limit.start()
if bucket == "endless":
    endless = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=endless.serve_forever, daemon=True).start()
    print(endless.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()

client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
                      aws_access_key_id="test", aws_secret_access_key="test")
client.create_bucket(Bucket=bucket)
for file in sorted(folder.rglob("*")):
    if file.is_file():
        client.put_object(Bucket=bucket, Key=str(file.relative_to(folder)), Body=file.read_bytes())
print(port, flush=True)
for line in sys.stdin:
    command, *words = line.split()
    if command == "list":
        objects = client.list_objects_v2(Bucket=bucket, Prefix=words[0]).get("Contents", [])
        print(" ".join(sorted(entry["Key"] for entry in objects)), flush=True)
        continue
    if command == "get":
        pathlib.Path(words[1]).write_bytes(client.get_object(Bucket=bucket, Key=words[0])["Body"].read())
    else:
        client.put_object(Bucket=bucket, Key=words[0], Body=pathlib.Path(words[1]).read_bytes())
    print(flush=True)
os._exit(0)
