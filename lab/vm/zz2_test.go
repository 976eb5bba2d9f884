package vm
import ("testing";"time";"bytes";"context";"os";"path/filepath")
func TestZBoot(t *testing.T){ m:=bootTest(t, Config{NoSaved:true}); t.Log(m.Console()) ; _=m}
func TestZPush(t *testing.T){ m:=bootTest(t, Config{}); d:=t.TempDir(); f:=filepath.Join(d,"x"); os.WriteFile(f,bytes.Repeat([]byte("0123456789abcdef"),1<<20*25/16),0o755)
s:=time.Now(); if err:=m.Push(context.Background(),f,"/tmp/x");err!=nil{t.Fatal(err)}; t.Log("push 25MB",time.Since(s)); s=time.Now(); if err:=m.Pull(context.Background(),"/tmp/",d+"/out");err!=nil{t.Fatal(err)}; t.Log("pull",time.Since(s)) }
func TestZFiles(t *testing.T){ m:=bootTest(t, Config{HostFiles:true}); 
for _,c:=range [][]string{{"ls","/"},{"ip","link"},{"bash","-c","time ip link add foo type vrf table 5; cat /proc/mounts; touch /etc/x && ls -la /etc/x; id; mount -o remount,rw /host; unshare -Ur id; modprobe ip6t_REJECT; lsmod | head -50; ping -c1 ::1; dmesg | tail -5"}} { s:=time.Now(); var b bytes.Buffer; x,err:=m.Run(context.Background(),Cmd{Args:c,Stdout:&b,Stderr:&b}); t.Log(c,x,err,time.Since(s),"\n"+b.String()) } }
